// Activity records: buffers are asked for when work begins, and given back when they are full, from a thread of our own, or when they
// are flushed.
#include "cupti.hpp"

#include <pthread.h>
#include <unistd.h>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace fake::cupti {
namespace {

// Records of CUPTI 12 are shorter; another record follows them.
#ifdef FAKE_CUPTI_12
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using MemoryRecord = CUpti_ActivityMemory3;
#else
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
using MemoryRecord = CUpti_ActivityMemory4;
#endif
using PeerRecord = CUpti_ActivityMemcpyPtoP4;
using SetRecord = CUpti_ActivityMemset4;

constexpr size_t kAlign = 8;

struct Buffer {
  uint8_t* memory;
  size_t bytes, used = 0;
  std::deque<Work> work{};
};

struct State {
  std::mutex lock;      // guards the members below
  std::mutex delivery;  // one at a time gives buffers back
  std::condition_variable full_ones;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;
  std::set<int> kinds;
  std::set<std::pair<CUcontext, int>> kinds_in_contexts;
  std::unique_ptr<Buffer> current;
  std::deque<std::unique_ptr<Buffer>> full;
  std::set<uint8_t*> lent;
  size_t dropped = 0;
  long seen = 0;
  bool thread = false;
};
State& state = *new State;

CUpti_ActivityKind kind_of(const Work& work) {
  switch (work.kind) {
    case Work::NOTHING:
      break;
    case Work::KERNEL:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case Work::COPY:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case Work::PEER_COPY:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case Work::SET:
      return CUPTI_ACTIVITY_KIND_MEMSET;
    case Work::MEMORY:
      return CUPTI_ACTIVITY_KIND_MEMORY2;
  }
  return CUPTI_ACTIVITY_KIND_INVALID;
}

size_t size_of(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(PeerRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(SetRecord);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(MemoryRecord);
    default:
      wrong("a record of kind %d: the buffer is not one that was completed", kind);
  }
}

bool complete(const Work& work) { return work.end != kNever && driver().now() >= work.end; }

bool complete(const Buffer& buffer) {
  for (const Work& work : buffer.work)
    if (!complete(work)) return false;
  return true;
}

// Both stamps on the client's clock, converted as the real one does it: by the present readings of the two clocks.
void stamps(const Work& work, uint64_t* start, uint64_t* end) {
  if (!complete(work)) return;
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  uint64_t now = state.clock ? state.clock() : static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(wall.tv_nsec);
  uint64_t device = driver().now();
  *start = work.start + now - device;
  *end = *start + (work.end - work.start);
}

template <class Record>
void write(uint8_t*& at, const Work& work, auto fill) {
  Record record;
  memset(&record, 0, sizeof record);
  record.kind = kind_of(work);
  record.correlationId = work.correlation;
  fill(record);
  memcpy(at, &record, sizeof record);
  at += sizeof record;
}

template <class Record>
void fill_device(Record& record, const Work& work) {
  stamps(work, &record.start, &record.end);
  record.deviceId = work.context ? work.context->device : 0;
  record.contextId = work.context ? work.context->id : 0;
  record.streamId = work.stream;
  record.graphNodeId = work.node;
}

void write_record(uint8_t*& at, const Work& work) {
  switch (work.kind) {
    case Work::NOTHING:
      return;
    case Work::KERNEL:
      return write<KernelRecord>(at, work, [&](KernelRecord& record) {
        fill_device(record, work);
        record.completed = record.end;
        record.registersPerThread = 32;
        const Dimensions& size = work.dimensions;
        record.gridX = static_cast<int>(size.grid[0]), record.gridY = static_cast<int>(size.grid[1]), record.gridZ = static_cast<int>(size.grid[2]);
        record.blockX = static_cast<int>(size.block[0]), record.blockY = static_cast<int>(size.block[1]),
        record.blockZ = static_cast<int>(size.block[2]);
        record.dynamicSharedMemory = static_cast<int>(size.shared);
        record.staticSharedMemory = 48, record.localMemoryPerThread = 16;
        record.name = work.function->name.c_str();
      });
    case Work::COPY:
      return write<CopyRecord>(at, work, [&](CopyRecord& record) {
        fill_device(record, work);
        record.copyKind = static_cast<uint8_t>(work.detail);
        record.bytes = work.bytes;
      });
    case Work::PEER_COPY:
      return write<PeerRecord>(at, work, [&](PeerRecord& record) {
        fill_device(record, work);
        record.copyKind = static_cast<uint8_t>(work.detail);
        record.bytes = work.bytes;
      });
    case Work::SET:
      return write<SetRecord>(at, work, [&](SetRecord& record) {
        fill_device(record, work);
        record.bytes = work.bytes;
      });
    case Work::MEMORY:
      return write<MemoryRecord>(at, work, [&](MemoryRecord& record) {
        uint64_t end = 0;
        stamps(work, &record.timestamp, &end);
        record.memoryOperationType = static_cast<CUpti_ActivityMemoryOperationType>(work.detail);
        record.memoryKind = work.pinned ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
        record.address = work.address, record.bytes = work.bytes;
        record.deviceId = work.context ? work.context->device : 0;
        record.contextId = work.context ? work.context->id : 0;
      });
  }
}

// With `delivery` held and `lock` free.
void give_back(std::unique_ptr<Buffer> buffer) {
  uint8_t* at = buffer->memory;
  for (const Work& work : buffer->work) write_record(at, work);
  CUpti_BuffersCallbackCompleteFunc function;
  {
    std::lock_guard guard(state.lock);
    function = state.complete;
    state.lent.erase(buffer->memory);
  }
  in_buffer_function = true;
  function(nullptr, 0, buffer->memory, buffer->bytes, static_cast<size_t>(at - buffer->memory));
  in_buffer_function = false;
}

void* deliver(void*) {
  pthread_setname_np(pthread_self(), "cuptiDeliver");
  for (;;) {
    usleep(2000);
    std::lock_guard one_at_a_time(state.delivery);
    for (;;) {
      std::unique_ptr<Buffer> next;
      {
        std::lock_guard guard(state.lock);
        if (state.full.empty() || !complete(*state.full.front())) break;
        next = std::move(state.full.front());
        state.full.pop_front();
      }
      give_back(std::move(next));
    }
  }
}

// With `lock` held. The client is asked in the middle of the program's own call.
bool new_buffer() {
  if (!state.request) return false;
  uint8_t* memory = nullptr;
  size_t bytes = 0, most = 0;
  in_buffer_function = true;
  state.request(&memory, &bytes, &most);
  in_buffer_function = false;
  if (!memory) return false;
  if (reinterpret_cast<uintptr_t>(memory) % kAlign) wrong("a buffer is not aligned to %zu bytes", kAlign);
  if (bytes < sizeof(KernelRecord)) wrong("a buffer of %zu bytes holds no record", bytes);
  if (!state.lent.insert(memory).second) wrong("a buffer was given that CUPTI has already");
  memset(memory, 0xEE, bytes);
  state.current = std::make_unique<Buffer>(Buffer{.memory = memory, .bytes = bytes});
  return true;
}

}  // namespace

void record(const Work& work) {
  std::lock_guard guard(state.lock);
  if (!state.kinds.contains(kind_of(work)) && !state.kinds_in_contexts.contains({reinterpret_cast<CUcontext>(work.context), kind_of(work)})) return;
  if (long every = setting("FAKE_CUPTI_DROP", 0); every && ++state.seen % every == 0) {
    state.dropped++;
    return;
  }
  size_t bytes = size_of(kind_of(work));
  if (state.current && state.current->used + bytes > state.current->bytes) state.full.push_back(std::move(state.current));
  if (!state.current && !new_buffer()) {
    state.dropped++;
    return;
  }
  state.current->used += bytes;
  state.current->work.push_back(work);
  if (!state.thread) {
    pthread_t thread;
    state.thread = pthread_create(&thread, nullptr, deliver, nullptr) == 0 && pthread_detach(thread) == 0;
  }
}

void forget_activity() {
  std::lock_guard one_at_a_time(state.delivery);
  std::lock_guard guard(state.lock);
  state.kinds.clear();
  state.kinds_in_contexts.clear();
  state.current = nullptr;
  state.full.clear();
  state.lent.clear();
  state.request = nullptr;
  state.complete = nullptr;
  state.clock = nullptr;
}

}  // namespace fake::cupti

using namespace fake;
using namespace fake::cupti;

CUPTI_FUNCTION cuptiActivityEnable(CUpti_ActivityKind kind) {
  enter("cuptiActivityEnable");
  if (!attach()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (setting("FAKE_CUPTI_REFUSES", 0)) return CUPTI_ERROR_NOT_COMPATIBLE;
  std::lock_guard guard(state.lock);
  state.kinds.insert(kind);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityDisable(CUpti_ActivityKind kind) {
  enter("cuptiActivityDisable");
  std::lock_guard guard(state.lock);
  state.kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  enter("cuptiActivityEnableContext");
  if (!attach()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  std::lock_guard guard(state.lock);
  state.kinds_in_contexts.insert({context, kind});
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  enter("cuptiActivityDisableContext");
  std::lock_guard guard(state.lock);
  state.kinds_in_contexts.erase({context, kind});
  return CUPTI_SUCCESS;
}

// How many kinds of activity are on in all contexts.
CUPTI_FUNCTION fake_cupti_kinds() {
  std::lock_guard guard(state.lock);
  return static_cast<CUptiResult>(state.kinds.size());
}

// Buffers that are out are given to the new client's function.
CUPTI_FUNCTION cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete_one) {
  enter("cuptiActivityRegisterCallbacks");
  if (!request || !complete_one) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard guard(state.lock);
  state.request = request;
  state.complete = complete_one;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  enter("cuptiActivityRegisterTimestampCallback");
  if (!clock) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard guard(state.lock);
  state.clock = clock;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityFlushAll(uint32_t flag) {
  enter("cuptiActivityFlushAll");
  if (in_buffer_function) wrong("cuptiActivityFlushAll: called in a buffer function");
  if (!state.complete) return CUPTI_ERROR_INVALID_OPERATION;
  bool forced = flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
  std::lock_guard one_at_a_time(state.delivery);
  for (;;) {
    std::unique_ptr<Buffer> next;
    {
      std::lock_guard guard(state.lock);
      auto ready = [&](const std::unique_ptr<Buffer>& buffer) { return buffer && (forced || complete(*buffer)); };
      if (!state.full.empty() && ready(state.full.front())) {
        next = std::move(state.full.front());
        state.full.pop_front();
      } else if (state.full.empty() && ready(state.current)) {
        next = std::move(state.current);
      }
    }
    if (!next) return CUPTI_SUCCESS;
    give_back(std::move(next));
  }
}

// The calling thread holds a lock that a flush needs, for good: as when a signal handler interrupts a flush, or a kernel hangs.
CUPTI_FUNCTION fake_cupti_hold() {
  state.delivery.lock();
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityFlushPeriod(uint32_t) {
  enter("cuptiActivityFlushPeriod");
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next ? next + size_of((*record)->kind) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  enter("cuptiActivityGetNumDroppedRecords");
  std::lock_guard guard(state.lock);
  *dropped = state.dropped;
  state.dropped = 0;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  enter("cuptiActivitySetAttribute");
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiActivityGetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  enter("cuptiActivityGetAttribute");
  return CUPTI_SUCCESS;
}
