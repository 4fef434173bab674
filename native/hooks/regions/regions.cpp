#include "hooks/regions/regions.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "sampler/thread_slots.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <bit>
#include <cstring>

namespace aiflame::regions {

namespace {

// A region that a thread has pushed and not popped yet.
struct Open {
  uint64_t nest;  // the thread's nest that it belongs to: nest_of(); 0: popped while regions inside of it, in other nests, are still open
  Tag tag;
  uint32_t row, recording;
};

// The open regions of a thread, in the order of their pushes. If a program pushes and never pops, the oldest are dropped: they end with their thread.
struct OpenRegions {
  static constexpr uint32_t kMost = 1 << 14;
  uint32_t bottom, top;  // count on for ever; places are modulo kMost
  Open places[kMost];

  Open& at(uint32_t number) noexcept { return places[number % kMost]; }

  void push(const Open& open) noexcept {
    if (top - bottom == kMost) bottom++;
    at(top) = open;
    top++;
  }

  // The innermost of a nest; nullptr: none is open.
  Open* find(uint64_t nest, Tag tag) noexcept {
    for (uint32_t number = top; number != bottom; number--)
      if (Open& open = at(number - 1); open.nest == nest && (tag == kAny || open.tag == tag)) return &open;
    return nullptr;
  }

  void remove(Open& open) noexcept {
    open.nest = 0;
    while (top != bottom && at(top - 1).nest == 0) top--;
  }
};

// The open regions by the thread's slot: kept for the next thread that gets the slot.
AIFLAME_LARGE constinit std::atomic<OpenRegions*> kept[thread_slots::kSlots];
constinit std::atomic<uint32_t> recordings{1};
// The slot of this thread's open regions, plus 1. A new thread has none, even if another thread's slot is free.
thread_local uint32_t mine;

OpenRegions* open_regions(const Thread& thread) noexcept {
  OpenRegions* regions = kept[thread.slot].load(std::memory_order_relaxed);
  if (mine == thread.slot + 1) [[likely]]
    return regions;
  if (!regions) {
    regions = static_cast<OpenRegions*>(sys::map_memory(sizeof(OpenRegions)));
    if (!regions) return nullptr;
    kept[thread.slot].store(regions, std::memory_order_relaxed);
  }
  regions->bottom = regions->top = 0;
  mine = thread.slot + 1;
  return regions;
}

Thread* calling_thread() noexcept { return control::recording() ? threads::self() : threads::self_if_known(); }

// A hash, never 0.
uint64_t nest_of(schema::RegionApi api, std::string_view domain) noexcept {
  spool::Hash hash;
  hash.add(static_cast<uint64_t>(api) << 32 | domain.size());
  uint64_t word;
  for (; domain.size() >= sizeof word; domain.remove_prefix(sizeof word)) {
    memcpy(&word, domain.data(), sizeof word);
    hash.add(word);
  }
  word = 0;
  if (!domain.empty()) memcpy(&word, domain.data(), domain.size());
  hash.add(word);
  return hash.state | 1;
}

// Texts and the row must belong to one recording.
uint32_t write(const Thread* thread, const Spec& spec, uint64_t begin_ns, const control::Use& use) noexcept {
  if (!thread || !thread->row || !control::recording()) return 0;
  return spool::append(schema::RegionRecord{.thread = thread->row,
                                            .api = static_cast<uint8_t>(spec.api),
                                            .kind = static_cast<uint8_t>(spec.kind),
                                            .payload_type = static_cast<uint8_t>(spec.payload_type),
                                            .color = spec.color,
                                            .domain = spool::text(spec.domain, use),
                                            .category = spool::text(spec.category, use),
                                            .name = spool::text(spec.name, use),
                                            .payload = spec.payload,
                                            .begin_ns = begin_ns},
                       use);
}

void write_end(const Thread* thread, uint32_t row, uint64_t end_ns, const control::Use& use) noexcept {
  if (row) spool::append(schema::RegionEnd{.region = row, .thread = thread ? thread->row : 0, .end_ns = end_ns}, use);
}

void note_unbalanced(schema::RegionApi api) noexcept {
  switch (api) {
    case schema::RegionApi::NVTX:
      return spool::note("NVTX: a range was popped where none was open: such pops are passed over");
    case schema::RegionApi::ITT:
      return spool::note("ITT: a task was ended where none was open: such ends are passed over");
    default:
      return spool::note("regions: one was popped where none was open: such pops are passed over");
  }
}

}  // namespace

uint32_t push(const Spec& spec, Tag tag) noexcept {
  control::Use use;
  Thread* thread = calling_thread();
  OpenRegions* open = thread ? open_regions(*thread) : nullptr;
  if (!open) return 0;  // it could never be popped
  uint32_t row = write(thread, spec, now_ns(), use);
  open->push({nest_of(spec.api, spec.domain), tag, row, recordings.load(std::memory_order_relaxed)});
  return row;
}

uint32_t pop(schema::RegionApi api, std::string_view domain, Tag tag) noexcept {
  uint64_t end_ns = now_ns();
  control::Use use;
  Thread* thread = calling_thread();
  OpenRegions* open = thread ? open_regions(*thread) : nullptr;
  Open* innermost = open ? open->find(nest_of(api, domain), tag) : nullptr;
  if (!innermost) {
    note_unbalanced(api);
    return 0;
  }
  uint32_t row = innermost->recording == recordings.load(std::memory_order_relaxed) ? innermost->row : 0;
  open->remove(*innermost);
  write_end(thread, row, end_ns, use);
  return row;
}

uint32_t begin(const Spec& spec) noexcept {
  control::Use use;
  return write(calling_thread(), spec, now_ns(), use);
}

void end(uint32_t row) noexcept {
  uint64_t end_ns = now_ns();
  control::Use use;
  write_end(calling_thread(), row, end_ns, use);
}

uint32_t submit(const Spec& spec, uint64_t begin_ns, uint64_t end_ns) noexcept {
  control::Use use;
  Thread* thread = calling_thread();
  uint32_t row = write(thread, spec, begin_ns, use);
  write_end(thread, row, end_ns, use);
  return row;
}

uint32_t innermost(schema::RegionApi api, std::string_view domain, Tag tag) noexcept {
  control::Use use;
  Thread* thread = calling_thread();
  OpenRegions* open = thread ? open_regions(*thread) : nullptr;
  Open* found = open ? open->find(nest_of(api, domain), tag) : nullptr;
  return found && found->recording == recordings.load(std::memory_order_relaxed) ? found->row : 0;
}

void tell(uint32_t row, std::string_view key, std::string_view value) noexcept {
  control::Use use;
  if (row) spool::append(schema::RegionData{.region = row, .key = spool::text(key, use), .value = spool::text(value, use)}, use);
}

void count(std::string_view domain, std::string_view name, double value) noexcept {
  control::Use use;
  Thread* thread = calling_thread();
  if (!thread || !thread->row) return;
  spool::append(schema::CounterRecord{.thread = thread->row,
                                      .name = spool::text(name, use),
                                      .domain = spool::text(domain, use),
                                      .value = std::bit_cast<uint64_t>(value),
                                      .time_ns = now_ns()},
                use);
}

uint32_t recording_number() noexcept { return recordings.load(std::memory_order_relaxed); }

void forget_rows() noexcept { recordings.fetch_add(1, std::memory_order_relaxed); }

}  // namespace aiflame::regions
