#include "hooks/torch/device_memory.hpp"

#include "base/clock.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/shared/late_binding.hpp"
#include "records/live_bytes.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <atomic>
#include <cstring>

namespace aiflame::torch_memory {

namespace {

// c10::Device
struct Device {
  int8_t type, index;
};
constexpr int8_t kCuda = 1;  // c10::DeviceType

// c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved, device): negative `bytes` are freed.
using Report = void (*)(void* address, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device);
// c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, device)
using ReportRefusal = void (*)(int64_t bytes, uint64_t allocated, uint64_t reserved, Device device);
constexpr const char* kBoth = "_ZN3c1027report";
constexpr const char* kReport = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
constexpr const char* kReportRefusal = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";
Report report;
ReportRefusal report_refusal;

bool is_wanted(Device device) noexcept {
  return device.type == kCuda && device.index >= 0 && control::recording() && control::has(schema::Feature::GPU_MEMORY);
}

// Thread, stack and place in autograd of a call, as launches have them.
struct Place {
  uint32_t thread, stack;
  torch_autograd::Point point;
};

Place place_of(Thread& thread, const Registers& caller) noexcept { return {thread.row, capture(thread, caller), torch_autograd::now()}; }

// The text of a device, written once in each recording: its reference, behind the number of the recording's tables.
uint32_t text_of(Device device) noexcept {
  constexpr uint32_t kMost = 64;
  static constinit std::atomic<uint64_t> known[kMost]{};
  auto ordinal = static_cast<uint32_t>(device.index);
  if (ordinal >= kMost) return cuda::device_text(ordinal);
  uint64_t text = known[ordinal].load(std::memory_order_relaxed);
  if (text >> 32 == spool::era() && static_cast<uint32_t>(text)) return static_cast<uint32_t>(text);
  uint32_t reference = cuda::device_text(ordinal);
  known[ordinal].store(uint64_t{spool::era()} << 32 | reference, std::memory_order_relaxed);
  return reference;
}

// The allocator holds its lock: nothing here waits, or calls CUDA.
void write(const Registers& caller, void* address, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) noexcept {
  live_bytes::set(device.index, allocated);
  Thread* thread = threads::self();
  if (!thread) return;
  threads::Use use(*thread);
  bool taken = bytes > 0;
  Place at = taken && thread->row ? place_of(*thread, caller) : Place{};
  thread->pool_blocks.append({
      .kind = static_cast<uint32_t>(taken ? schema::AllocationKind::TAKE : schema::AllocationKind::RELEASE),
      .device = text_of(device),
      .thread = at.thread,
      .stack = at.stack,
      .autograd = at.point.autograd,
      .sequence = at.point.sequence,
      .address = reinterpret_cast<uint64_t>(address),
      .bytes = static_cast<uint64_t>(taken ? bytes : -bytes),
      .used = allocated,
      .held = reserved,
      .time_ns = now_ns(),
  });
}

void write_refusal(const Registers& caller, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) noexcept {
  control::Use use;
  if (!is_wanted(device)) return;
  Thread* thread = threads::self();
  Place at = thread && thread->row ? place_of(*thread, caller) : Place{};
  spool::append(
      schema::MemoryRefusal{
          .thread = at.thread,
          .stack = at.stack,
          .memory = text_of(device),
          .bytes = static_cast<uint64_t>(bytes),
          .used = allocated,
          .held = reserved,
          .time_ns = now_ns(),
      },
      use);
}

// The real ones may throw: nothing here is in need of an end.
void reported(void* address, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) {
  if (is_wanted(device)) write(hooks::caller(), address, bytes, allocated, reserved, device);
  report(address, bytes, allocated, reserved, device);
}

void refused(int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) {
  if (is_wanted(device)) write_refusal(hooks::caller(), bytes, allocated, reserved, device);
  report_refusal(bytes, allocated, reserved, device);
}

void* ours(const char* name) noexcept {
  if (report && strcmp(name, kReport) == 0) return reinterpret_cast<void*>(reported);
  if (report_refusal && strcmp(name, kReportRefusal) == 0) return reinterpret_cast<void*>(refused);
  return nullptr;
}

}  // namespace

void listen(void* library) noexcept {
  report = reinterpret_cast<Report>(dlsym(library, kReport));
  report_refusal = reinterpret_cast<ReportRefusal>(dlsym(library, kReportRefusal));
  if (report || report_refusal) hooks::lead_callers(kBoth, ours);
}

}  // namespace aiflame::torch_memory
