// Calls in which the program waits for a device → `syncs`.
#include "base/large.hpp"
#include "hooks/cuda/cupti_api.hpp"
#include "hooks/cuda/internal.hpp"
#include "spool/spool.hpp"

#include <atomic>

namespace aiflame::cuda {

namespace {

using schema::SyncKind;

// For each call of the driver's API, then of the runtime's: a SyncKind, and whether its default stream is the thread's own. 0: a call
// that does not wait.
constexpr uint8_t kOfThread = 0x80;
AIFLAME_LARGE constinit std::atomic<uint8_t> known[2][kMostCalls]{};

std::atomic<uint8_t>& known_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  return known[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id % kMostCalls];
}

uint8_t wait_of(std::string_view name) noexcept {
  auto kind = [&](std::string_view driver, std::string_view runtime, SyncKind is) {
    return name.starts_with(driver) || name.starts_with(runtime) ? static_cast<uint8_t>(is) : 0;
  };
  int found = kind("cuStreamSynchronize", "cudaStreamSynchronize", SyncKind::STREAM) |
              kind("cuCtxSynchronize", "cudaDeviceSynchronize", SyncKind::CONTEXT) |
              kind("cuEventSynchronize", "cudaEventSynchronize", SyncKind::EVENT);
  bool of_thread = name.find("_ptsz") != name.npos;
  return static_cast<uint8_t>(found && of_thread ? found | kOfThread : found);
}

// 0: unknown. The one parameter of these calls, in both APIs, is the stream.
uint32_t stream_of(const CUpti_CallbackData& data, bool of_thread) noexcept {
  if (!cupti().GetStreamIdEx || !data.functionParams || !data.context) return 0;
  CUstream stream = *static_cast<const CUstream*>(data.functionParams);
  if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    of_thread = stream == CU_STREAM_PER_THREAD;
    stream = nullptr;
  }
  uint32_t id = 0;
  return cupti().GetStreamIdEx(data.context, stream, of_thread, &id) == CUPTI_SUCCESS ? stream_number(data.contextUid, id) : 0;
}

}  // namespace

bool learn_wait(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept {
  uint8_t wait = wait_of(name);
  known_of(domain, id).store(wait, std::memory_order_relaxed);
  return wait != 0;
}

bool waits(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept { return known_of(domain, id).load(std::memory_order_relaxed) != 0; }

Wait wait_of(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept {
  uint8_t wait = known_of(domain, id).load(std::memory_order_relaxed);
  auto kind = static_cast<SyncKind>(wait & ~kOfThread);
  return {.kind = static_cast<uint32_t>(kind), .stream = kind == SyncKind::STREAM ? stream_of(data, wait & kOfThread) : 0};
}

void write_wait(const Wait& wait, uint32_t id, uint64_t begin_ns, uint64_t end_ns) noexcept {
  spool::append(schema::SyncRecord{.kind = wait.kind,
                                   .api = static_cast<uint32_t>(schema::GpuApi::CUDA),
                                   .correlation = correlation(id),
                                   .start_ns = begin_ns,
                                   .end_ns = end_ns,
                                   .stream = wait.stream});
}

}  // namespace aiflame::cuda
