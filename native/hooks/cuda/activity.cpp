// CUPTI's activity buffers → `kernels`, `copies`, `allocations`.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/device_load.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/cuda/sharing.hpp"
#include "records/kernel_shapes.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>

namespace aiflame::cuda {

namespace {

// CUPTI hands out records of its own version. The fields that we read have the same offsets in all versions from 12.0 on.
using Kernel = CUpti_ActivityKernel10;
using Copy = CUpti_ActivityMemcpy6;
using PeerCopy = CUpti_ActivityMemcpyPtoP4;
using Fill = CUpti_ActivityMemset4;
using Memory = CUpti_ActivityMemory4;
#define AIFLAME_SAME(Newer, Older, field) static_assert(offsetof(Newer, field) == offsetof(Older, field))
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, start);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, end);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, registersPerThread);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, deviceId);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, contextId);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, streamId);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, gridX);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, blockZ);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, staticSharedMemory);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, dynamicSharedMemory);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, localMemoryPerThread);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, correlationId);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, name);
AIFLAME_SAME(Kernel, CUpti_ActivityKernel8, graphNodeId);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, copyKind);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, bytes);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, start);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, deviceId);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, streamId);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, correlationId);
AIFLAME_SAME(Copy, CUpti_ActivityMemcpy5, graphNodeId);
AIFLAME_SAME(PeerCopy, CUpti_ActivityMemcpyPtoP3, start);
AIFLAME_SAME(PeerCopy, CUpti_ActivityMemcpyPtoP3, correlationId);
AIFLAME_SAME(PeerCopy, CUpti_ActivityMemcpyPtoP3, graphNodeId);
AIFLAME_SAME(Fill, CUpti_ActivityMemset3, bytes);
AIFLAME_SAME(Fill, CUpti_ActivityMemset3, start);
AIFLAME_SAME(Fill, CUpti_ActivityMemset3, correlationId);
AIFLAME_SAME(Fill, CUpti_ActivityMemset3, graphNodeId);
AIFLAME_SAME(Memory, CUpti_ActivityMemory3, correlationId);
AIFLAME_SAME(Memory, CUpti_ActivityMemory3, bytes);
AIFLAME_SAME(Memory, CUpti_ActivityMemory3, timestamp);
AIFLAME_SAME(Memory, CUpti_ActivityMemory3, deviceId);
AIFLAME_SAME(Memory, CUpti_ActivityMemory3, memoryKind);
#undef AIFLAME_SAME

// 5,000 kernels or so. A few are kept for the next time.
constexpr size_t kBufferBytes = 1 << 20;
constexpr uint32_t kMostBuffers = 4096, kMostSpare = 8;

// A buffer of ours. CUPTI returns every buffer to the callback that was registered last, so other tools' buffers arrive here too; we
// recognize them by their absence from this table.
struct Buffer {
  enum State : uint8_t { NONE, BEING_CHANGED, SPARE, OUT };
  std::atomic<State> state;
  bool is_for_us;  // lent for our own records: another tool may switch its activities on before it registers where they go
  std::atomic<uint8_t*> memory;

  bool take(State in) noexcept { return state.compare_exchange_strong(in, BEING_CHANGED, std::memory_order_acquire); }
  void leave(State in) noexcept { state.store(in, std::memory_order_release); }
};
AIFLAME_LARGE constinit Buffer buffers[kMostBuffers];
constinit std::atomic<uint32_t> spare_count{0}, buffers_out{0};

constexpr auto kApi = static_cast<uint8_t>(schema::GpuApi::CUDA);

void write(const Kernel& kernel) noexcept {
  if (!kernel.start || kernel.end < kernel.start) return spool::note("CUDA: some kernels have no time stamps and are left out");
  count_kernel(kernel.deviceId, kernel.correlationId, kernel.start, kernel.end);
  std::string_view name = kernel.name ? std::string_view(kernel.name) : std::string_view("[unnamed kernel]");
  schema::KernelShape shape{.name = spool::text(name),
                            .device = device_text(kernel.deviceId),
                            .api = kApi,
                            .grid_x = static_cast<uint32_t>(kernel.gridX),
                            .grid_y = static_cast<uint32_t>(kernel.gridY),
                            .grid_z = static_cast<uint32_t>(kernel.gridZ),
                            .block_x = static_cast<uint32_t>(kernel.blockX),
                            .block_y = static_cast<uint32_t>(kernel.blockY),
                            .block_z = static_cast<uint32_t>(kernel.blockZ),
                            .registers = kernel.registersPerThread,
                            .static_shared = static_cast<uint32_t>(kernel.staticSharedMemory),
                            .dynamic_shared = static_cast<uint32_t>(kernel.dynamicSharedMemory),
                            .local_bytes = kernel.localMemoryPerThread};
  spool::append(schema::KernelRecord{.shape = kernel_shapes::row(shape),
                                     .correlation = correlation(kernel.correlationId),
                                     .node = node_or_unknown(kernel.graphNodeId, correlation(kernel.correlationId)),
                                     .start_ns = kernel.start,
                                     .end_ns = kernel.end,
                                     .stream = stream_number(kernel.contextId, kernel.streamId),
                                     .api = kApi});
}

schema::CopyKind kind_of(uint8_t kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return schema::CopyKind::HOST_TO_DEVICE;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return schema::CopyKind::DEVICE_TO_HOST;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return schema::CopyKind::PEER;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return schema::CopyKind::MAP;
    default:
      return schema::CopyKind::DEVICE_TO_DEVICE;
  }
}

template <class Record>
void write_copy(const Record& copy, schema::CopyKind kind) noexcept {
  if (!copy.start || copy.end < copy.start) return;
  spool::append(schema::CopyRecord{.kind = static_cast<uint32_t>(kind),
                                   .device = device_text(copy.deviceId),
                                   .api = kApi,
                                   .correlation = correlation(copy.correlationId),
                                   .node = node_or_unknown(copy.graphNodeId, correlation(copy.correlationId)),
                                   .start_ns = copy.start,
                                   .end_ns = copy.end,
                                   .bytes = copy.bytes,
                                   .stream = stream_number(copy.contextId, copy.streamId)});
}

schema::MemoryKind kind_of(const Memory& memory) noexcept {
  switch (memory.memoryKind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return schema::MemoryKind::HOST;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return schema::MemoryKind::DEVICE;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return schema::MemoryKind::MANAGED;
    default:
      return schema::MemoryKind::UNKNOWN;
  }
}

void write(const Memory& memory) noexcept {
  bool taken = memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  spool::append(schema::AllocationRecord{.kind = static_cast<uint32_t>(taken ? schema::AllocationKind::TAKE : schema::AllocationKind::RELEASE),
                                         .memory = static_cast<uint32_t>(kind_of(memory)),
                                         .device = device_text(memory.deviceId),
                                         .api = kApi,
                                         .correlation = correlation(memory.correlationId),
                                         .address = memory.address,
                                         .bytes = memory.bytes,
                                         .time_ns = memory.timestamp});
}

void write(const CUpti_Activity& activity) noexcept {
  auto as = [&]<class Record>(const Record*) -> const Record& { return reinterpret_cast<const Record&>(activity); };
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return write(as(static_cast<const Kernel*>(nullptr)));
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as(static_cast<const Copy*>(nullptr));
      return write_copy(copy, kind_of(copy.copyKind));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return write_copy(as(static_cast<const PeerCopy*>(nullptr)), schema::CopyKind::PEER);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write_copy(as(static_cast<const Fill*>(nullptr)), schema::CopyKind::FILL);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return write(as(static_cast<const Memory*>(nullptr)));
    default:
      return;
  }
}

// A buffer with a kernel in it that still runs stays with CUPTI: it is given this long.
constexpr uint64_t kPatience = 300'000'000;

Buffer* take_spare() noexcept {
  if (!spare_count.load(std::memory_order_relaxed)) return nullptr;
  for (Buffer& buffer : buffers)
    if (buffer.take(Buffer::SPARE)) {
      spare_count.fetch_sub(1, std::memory_order_relaxed);
      return &buffer;
    }
  return nullptr;
}

Buffer* make_buffer() noexcept {
  for (Buffer& buffer : buffers) {
    if (!buffer.take(Buffer::NONE)) continue;
    auto* memory = static_cast<uint8_t*>(sys::map_memory(kBufferBytes));
    buffer.memory.store(memory, std::memory_order_relaxed);
    if (memory) return &buffer;
    buffer.leave(Buffer::NONE);
    return nullptr;
  }
  return nullptr;
}

// nullptr: it is not ours.
Buffer* take_back(const uint8_t* memory) noexcept {
  for (Buffer& buffer : buffers)
    if (buffer.memory.load(std::memory_order_relaxed) == memory && buffer.take(Buffer::OUT)) return &buffer;
  return nullptr;
}

void keep_or_unmap(Buffer& buffer) noexcept {
  if (spare_count.fetch_add(1, std::memory_order_relaxed) < kMostSpare) return buffer.leave(Buffer::SPARE);
  spare_count.fetch_sub(1, std::memory_order_relaxed);
  sys::unmap_memory(buffer.memory.exchange(nullptr, std::memory_order_relaxed), kBufferBytes);
  buffer.leave(Buffer::NONE);
}

void CUPTIAPI on_buffer_wanted(uint8_t** memory, size_t* bytes, size_t* most_records) {
  Buffer* buffer = take_spare();
  if (!buffer) buffer = make_buffer();
  *memory = buffer ? buffer->memory.load(std::memory_order_relaxed) : nullptr;
  *bytes = buffer ? kBufferBytes : 0;
  *most_records = 0;
  if (!buffer) return;
  buffer->is_for_us = collecting();
  buffers_out.fetch_add(1, std::memory_order_relaxed);
  buffer->leave(Buffer::OUT);
}

uint64_t our_clock() { return now_ns(); }
// CUPTI's own time stamps are in this clock; another tool in the program expects them.
uint64_t time_of_day() { return clock_ns(CLOCK_REALTIME); }

// Not CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: on an H200 it alone costs a launch-bound training step 25 to 40%, and these 2 to 4%. Our own
// callbacks measure how long the program waited (`syncs`).
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

}  // namespace

uint32_t stream_number(uint32_t context, uint32_t stream) noexcept { return context <= 1 ? stream : (context - 1) << 20 | (stream & 0xFFFFF); }

void CUPTIAPI on_buffer_full(CUcontext context, uint32_t stream, uint8_t* memory, size_t bytes, size_t used) {
  if (sharing::give_back(context, stream, memory, bytes, used)) return;
  Buffer* buffer = take_back(memory);
  if (!buffer) return;
  CUpti_Activity* activity = nullptr;
  while (used && buffer->is_for_us && control::recording() && cupti().ActivityGetNextRecord(memory, used, &activity) == CUPTI_SUCCESS)
    write(*activity);
  size_t dropped = 0;
  if (cupti().ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped)
    spool::note("CUDA: records of kernels and copies were dropped: no memory for CUPTI's buffers");
  keep_or_unmap(*buffer);
  buffers_out.fetch_sub(1, std::memory_order_relaxed);
}

bool enable_activity() noexcept {
  if (!cupti().ActivityRegisterTimestampCallback || !worked(cupti().ActivityRegisterTimestampCallback(our_clock), "setting the clock")) {
    spool::note("this CUPTI cannot use our clock: GPU kernels are not recorded; mend it with: pip install -U nvidia-cuda-cupti");
    return false;
  }
  if (!worked(cupti().ActivityRegisterCallbacks(on_buffer_wanted, on_buffer_full), "asking for records")) return false;
  sharing::registered_ours();
  bool any = false;
  for (CUpti_ActivityKind kind : kKinds) any |= worked(cupti().ActivityEnable(kind), "recording device activity");
  if (control::has(schema::Feature::GPU_MEMORY)) worked(cupti().ActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2), "recording device memory");
  return any;
}

void disable_activity() noexcept {
  for (CUpti_ActivityKind kind : kKinds) cupti().ActivityDisable(kind);
  if (control::has(schema::Feature::GPU_MEMORY)) cupti().ActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
}

bool has_lent_buffers() noexcept { return buffers_out.load(std::memory_order_relaxed) > 0; }

void flush_activity(bool all) noexcept {
  if (!may_call_cupti()) return;
  cupti().ActivityFlushAll(0);
  if (!all) return;
  timespec moment{0, 1'000'000};
  for (uint64_t begin = now_ns(); buffers_out.load(std::memory_order_relaxed) && now_ns() - begin < kPatience;) {
    sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
    cupti().ActivityFlushAll(0);
  }
  cupti().ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

void give_clock_back() noexcept {
  if (cupti().ActivityRegisterTimestampCallback) cupti().ActivityRegisterTimestampCallback(sharing::clock() ? sharing::clock() : time_of_day);
}

}  // namespace aiflame::cuda
