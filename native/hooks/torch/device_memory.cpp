#include "hooks/torch/device_memory.hpp"

#include "base/clock.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/shared/late_binding.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
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

// What a call has in common with launches: its thread, stack and place in autograd.
struct Place {
  uint32_t thread, stack;
  torch_autograd::Point point;
};

Place place_of(const Registers& caller) noexcept {
  Thread* thread = threads::self();
  if (!thread || !thread->row) return {};
  return {thread->row, capture(*thread, caller), torch_autograd::now()};
}

// The allocator holds its lock: nothing here waits, or calls CUDA.
void write(const Registers& caller, void* address, int64_t bytes, uint64_t reserved, Device device) noexcept {
  control::Use use;
  if (!is_wanted(device)) return;
  bool taken = bytes > 0;
  Place at = taken ? place_of(caller) : Place{};
  spool::append(schema::PoolBlock{
                    .kind = static_cast<uint32_t>(taken ? schema::AllocationKind::TAKE : schema::AllocationKind::RELEASE),
                    .device = cuda::device_text(static_cast<uint32_t>(device.index)),
                    .thread = at.thread,
                    .stack = at.stack,
                    .autograd = at.point.autograd,
                    .sequence = at.point.sequence,
                    .address = reinterpret_cast<uint64_t>(address),
                    .bytes = static_cast<uint64_t>(taken ? bytes : -bytes),
                    .held = reserved,
                    .time_ns = now_ns(),
                },
                use);
}

void write_refusal(const Registers& caller, int64_t bytes, Device device) noexcept {
  control::Use use;
  if (!is_wanted(device)) return;
  Place at = place_of(caller);
  spool::append(schema::MemoryRefusal{.thread = at.thread,
                                      .stack = at.stack,
                                      .memory = cuda::device_text(static_cast<uint32_t>(device.index)),
                                      .bytes = static_cast<uint64_t>(bytes),
                                      .time_ns = now_ns()},
                use);
}

// The real ones may throw: nothing here is in need of an end.
void reported(void* address, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) {
  if (is_wanted(device)) write(hooks::caller(), address, bytes, reserved, device);
  report(address, bytes, allocated, reserved, device);
}

void refused(int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) {
  if (is_wanted(device)) write_refusal(hooks::caller(), bytes, device);
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
