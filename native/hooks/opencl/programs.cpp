#include "hooks/opencl/programs.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/opencl/devices.hpp"
#include "hooks/shared/intel_code.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstdio>

namespace aiflame::opencl {

namespace {

constexpr uint32_t kMostDevices = 16;
constexpr size_t kLargest = size_t{1} << 30;

// Programs whose code this recording has. One that is pushed out is asked again: that costs time, and a second row.
constexpr uint32_t kPrograms = 1 << 12;
AIFLAME_LARGE constinit std::atomic<Program> known[kPrograms];
std::atomic<bool> any{false};
std::atomic<uint32_t> addressed[kMostDevices];  // recordings that have the PCI address of a device, by its place among devices

std::atomic<Program>& place_of(Program program) noexcept { return known[(reinterpret_cast<uint64_t>(program) * 0x9E3779B97F4A7C15u) >> 52]; }
static_assert(kPrograms == 1 << (64 - 52));

void forget(Program program) noexcept {
  if (Program there = program; program) place_of(program).compare_exchange_strong(there, nullptr);
}

bool is_intels_gpu(DeviceId device) noexcept {
  return get<uint32_t>(kGetDeviceInfo, device, kDeviceVendorId) == kIntel && get<uint64_t>(kGetDeviceInfo, device, kDeviceType) & kGpu;
}

void write_address(DeviceId device, const char* name, std::atomic<uint32_t>& written) noexcept {
  uint32_t era = spool::era();
  if (written.exchange(era, std::memory_order_relaxed) == era) return;
  struct {
    uint32_t domain, bus, device, function;
  } pci{};
  if (next(kGetDeviceInfo)(device, kDevicePciBusInfo, sizeof pci, &pci, nullptr) != kSuccess) return;
  char text[40];
  int size = snprintf(text, sizeof text, "%04X:%02X:%02X.%X", pci.domain, pci.bus, pci.device, pci.function);
  if (size <= 0 || size >= static_cast<int>(sizeof text)) return;
  spool::append(schema::GpuDevice{.device = spool::text(name), .address = spool::text({text, static_cast<size_t>(size)})});
}

// The driver's copies of a program's code for debuggers, one for each device.
void keep(Program program, uint64_t time_ns) noexcept {
  DeviceId devices[kMostDevices] = {};
  size_t sizes[kMostDevices] = {}, all = 0;
  uint8_t* copies[kMostDevices] = {};
  auto count = get<uint32_t>(kGetProgramInfo, program, kProgramDeviceCount);
  if (!count || count > kMostDevices) return;
  if (next(kGetProgramInfo)(program, kProgramDevices, count * sizeof *devices, devices, nullptr) != kSuccess || !is_intels_gpu(devices[0])) return;
  if (next(kGetProgramInfo)(program, kProgramDebugInfoSizes, count * sizeof *sizes, sizes, nullptr) != kSuccess) return;
  for (uint32_t at = 0; at < count; at++) {
    if (sizes[at] > kLargest) return;
    all += sizes[at];
  }
  auto* room = all ? static_cast<uint8_t*>(sys::map_memory(all)) : nullptr;
  if (!room) return;
  for (size_t at = 0, begin = 0; at < count; begin += sizes[at++]) copies[at] = sizes[at] ? room + begin : nullptr;
  if (next(kGetProgramInfo)(program, kProgramDebugInfo, count * sizeof *copies, copies, nullptr) == kSuccess)
    for (uint32_t at = 0; at < count; at++) {
      Device* device = copies[at] ? device_for(devices[at]) : nullptr;
      if (!device) continue;
      if (size_t place = place_in_table(*device); place < kMostDevices) write_address(devices[at], device->name, addressed[place]);
      intel_code::loaded(spool::text(device->name), time_ns, copies[at], sizes[at]);
    }
  sys::unmap_memory(room, all);
}

void has_kernels(Program program) noexcept {
  if (!program || !control::has(schema::Feature::OPENCL) || !control::recording()) return;
  any.store(true, std::memory_order_relaxed);
  if (place_of(program).exchange(program) != program) keep(program, now_ns());
}

}  // namespace

Kernel create_kernel(Program program, const char* name, int32_t* error) noexcept {
  Kernel kernel = next(kCreateKernel)(program, name, error);
  if (kernel) has_kernels(program);
  return kernel;
}

int32_t create_kernels(Program program, uint32_t count, Kernel* kernels, uint32_t* made) noexcept {
  int32_t result = next(kCreateKernelsInProgram)(program, count, kernels, made);
  if (result == kSuccess && kernels) has_kernels(program);
  return result;
}

int32_t release_program(Program program) noexcept {
  forget(program);
  return next(kReleaseProgram)(program);
}

int32_t build_program(Program program, uint32_t count, const DeviceId* devices, const char* options, BuildCallback callback, void* data) noexcept {
  forget(program);
  return next(kBuildProgram)(program, count, devices, options, callback, data);
}

void forget_programs() noexcept {
  if (!any.exchange(false, std::memory_order_relaxed)) return;
  for (auto& program : known) program.store(nullptr, std::memory_order_relaxed);
}

}  // namespace aiflame::opencl
