// Kernels and copies that AMD's devices ran → `kernels`, `copies`.
#include "hooks/rocprofiler/code_objects.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "records/kernel_shapes.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>

namespace aiflame::rocprofiler {

namespace {

uint32_t groups(uint32_t items, uint32_t group) noexcept { return group ? (items + group - 1) / group : items; }

schema::CopyKind kind_of(int32_t operation) noexcept {
  switch (operation) {
    case kHostToDevice:
      return schema::CopyKind::HOST_TO_DEVICE;
    case kDeviceToHost:
      return schema::CopyKind::DEVICE_TO_HOST;
    case kHostToHost:
      return schema::CopyKind::MAP;
    default:
      return schema::CopyKind::DEVICE_TO_DEVICE;
  }
}

}  // namespace

void on_dispatch(uint64_t correlation, uint64_t node, const Dispatch& dispatch) noexcept {
  if (dispatch.size < sizeof dispatch || !dispatch.start || dispatch.end < dispatch.start)
    return spool::note("AMD: some kernels have no time stamps and are left out");
  control::Use use;
  Kernel known = kernel(dispatch.kernel);
  const Extent &group = dispatch.workgroup, &grid = dispatch.grid;
  schema::KernelShape shape{.name = spool::text(known.name ? known.name : "[unnamed kernel]", use),
                            .device = device_text(dispatch.agent),
                            .api = static_cast<uint32_t>(kApi),
                            .grid_x = groups(grid.x, group.x),
                            .grid_y = groups(grid.y, group.y),
                            .grid_z = groups(grid.z, group.z),
                            .block_x = group.x,
                            .block_y = group.y,
                            .block_z = group.z,
                            .registers = known.registers,
                            .static_shared = known.group_bytes,
                            .dynamic_shared = dispatch.group_bytes - std::min(dispatch.group_bytes, known.group_bytes),
                            .local_bytes = std::max(dispatch.private_bytes, known.private_bytes)};
  spool::append(schema::KernelRecord{.shape = kernel_shapes::row(shape),
                                     .correlation = correlation,
                                     .node = node,
                                     .start_ns = to_monotonic(dispatch.start),
                                     .end_ns = to_monotonic(dispatch.end),
                                     .stream = static_cast<uint32_t>(dispatch.queue.handle),
                                     .api = static_cast<uint8_t>(kApi)},
                use);
}

void on_copy(uint64_t correlation, int32_t operation, const Copy& copy) noexcept {
  if (copy.size < sizeof copy || !copy.start || copy.end < copy.start) return;
  control::Use use;
  spool::append(schema::CopyRecord{.kind = static_cast<uint32_t>(kind_of(operation)),
                                   .device = device_text(operation == kDeviceToHost ? copy.from : copy.to),
                                   .api = static_cast<uint32_t>(kApi),
                                   .correlation = correlation,
                                   .start_ns = to_monotonic(copy.start),
                                   .end_ns = to_monotonic(copy.end),
                                   .bytes = copy.bytes},
                use);
}

}  // namespace aiflame::rocprofiler
