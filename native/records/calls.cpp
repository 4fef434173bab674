#include "records/calls.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"

#include <cstring>

extern "C" __attribute__((visibility("default"))) const aiflame::calls::Interface* aiflame_calls() noexcept;

namespace aiflame::calls {

namespace {

std::atomic<uint32_t> recording{1};

uint64_t hash_of(schema::CallBackend backend, std::string_view text) noexcept {
  spool::Hash hash;
  hash.add(static_cast<uint64_t>(backend) << 32 | text.size());
  for (uint64_t word; !text.empty(); text.remove_prefix(text.size() < 8 ? text.size() : 8)) {
    word = 0;
    memcpy(&word, text.data(), text.size() < 8 ? text.size() : 8);
    hash.add(word);
  }
  return hash.state | 1;
}

// Names that are not constants, by their hash; none is ever removed. They live as long as the process, since calls may end at any time.
struct Named {
  std::atomic<uint64_t> hash;  // 0: free
  std::atomic<Function*> function;
};
constexpr uint32_t kNames = 1 << 12;
AIFLAME_LARGE constinit Named names[kNames];

// A program has some hundred names: they share pages.
constexpr size_t kShared = 1 << 16;
AIFLAME_LARGE alignas(Function) constinit char shared[kShared];
constinit std::atomic<size_t> taken{0};

void* room(size_t bytes) noexcept {
  bytes = (bytes + alignof(Function) - 1) / alignof(Function) * alignof(Function);
  size_t at = taken.fetch_add(bytes, std::memory_order_relaxed);
  return at + bytes <= kShared ? shared + at : sys::map_memory(bytes);
}

// Groups by backend and handle. A place that was forgotten keeps its key, so that those behind it are still found.
struct KnownGroup {
  std::atomic<uint64_t> key;  // 0: free
  std::atomic<uint64_t> row;  // number of the recording, and row
};
constexpr uint32_t kGroups = 1 << 12;
AIFLAME_LARGE constinit KnownGroup groups[kGroups];

KnownGroup* place_of(schema::CallBackend backend, uint64_t handle, bool make_one) noexcept {
  spool::Hash hash;
  hash.add(static_cast<uint64_t>(backend));
  hash.add(handle);
  uint64_t key = hash.state | 1;
  for (uint32_t step = 0; step < 64; step++) {
    KnownGroup& place = groups[(key + step) % kGroups];
    uint64_t there = place.key.load(std::memory_order_acquire);
    if (there == key) return &place;
    if (there != 0) continue;
    if (!make_one) return nullptr;
    if (place.key.compare_exchange_strong(there, key) || there == key) return &place;
  }
  return nullptr;
}

uint64_t packed(uint32_t row) noexcept { return static_cast<uint64_t>(recording.load(std::memory_order_relaxed)) << 32 | row; }
uint32_t row_in(uint64_t word) noexcept { return word >> 32 == recording.load(std::memory_order_relaxed) ? static_cast<uint32_t>(word) : 0; }

bool traced(schema::Feature feature) noexcept { return control::recording() && control::has(feature); }

constexpr Interface kInterface{traced, begin, end, end_at, find_group, add_group, forget_group};

}  // namespace

uint32_t Function::row(const control::Use& use) noexcept {
  if (uint32_t known = row_in(row_.load(std::memory_order_relaxed))) [[likely]]
    return known;
  // Two threads may make a row each: a reader goes by the name.
  uint32_t made = spool::append(schema::CallName{.backend = static_cast<uint32_t>(backend_), .name = spool::text(name_, use)}, use);
  row_.store(packed(made), std::memory_order_relaxed);
  return made;
}

Function* make(schema::CallBackend backend, std::string_view name) noexcept {
  auto* memory = static_cast<char*>(room(sizeof(Function) + name.size()));
  if (!memory) return nullptr;
  char* text = memory + sizeof(Function);
  memcpy(text, name.data(), name.size());
  return new (memory) Function(backend, {text, name.size()});
}

Function* named(schema::CallBackend backend, std::string_view name) noexcept {
  uint64_t hash = hash_of(backend, name);
  for (uint32_t step = 0; step < 64; step++) {
    Named& place = names[(hash + step) % kNames];
    uint64_t there = place.hash.load(std::memory_order_acquire);
    if (there == 0 && place.hash.compare_exchange_strong(there, hash)) {
      Function* made = make(backend, name);
      place.function.store(made, std::memory_order_release);
      return made;
    }
    // Another thread is adding it and will be done at once; this call goes without.
    if (there == hash) return place.function.load(std::memory_order_acquire);
  }
  spool::note("calls: more than 4096 names of traced functions; some calls are not traced");
  return nullptr;
}

Begun begin(const Registers& caller, Stack stack) noexcept {
  Begun begun{};
  if (!control::recording()) return begun;
  // Read before the row: at the end of a recording threads lose their rows before the number changes, and get new ones after that.
  uint32_t number = recording.load(std::memory_order_acquire);
  Thread* thread = threads::self();
  if (!thread || !(begun.thread = std::atomic_ref(thread->row).load(std::memory_order_acquire))) return begun;
  begun.recording = number;
  begun.point = torch_autograd::now();
  if (stack == Stack::ALWAYS || (stack == Stack::ON_REQUEST && control::has(schema::Feature::TRACE_STACKS))) {
    control::Use use;
    begun.stack = capture(*thread, caller);
  }
  begun.begin_ns = now_ns();
  return begun;
}

void end(const Begun& begun, Function& function, const Outcome& outcome) noexcept {
  if (begun.recording) end_at(begun, function, outcome, now_ns());
}

void end_at(const Begun& begun, Function& function, const Outcome& outcome, uint64_t end_ns) noexcept {
  control::Use use;
  if (!control::recording() || begun.recording != recording.load(std::memory_order_relaxed)) return;
  spool::append(schema::CallRecord{.name = function.row(use),
                                   .thread = begun.thread,
                                   .stack = begun.stack,
                                   .group = outcome.group,
                                   .peer = outcome.peer,
                                   .result = static_cast<uint32_t>(outcome.result),
                                   .kind = static_cast<uint8_t>(outcome.kind),
                                   .failed = outcome.failed,
                                   .autograd = begun.point.autograd,
                                   .sequence = begun.point.sequence,
                                   .bytes = outcome.bytes,
                                   .begin_ns = begun.begin_ns,
                                   .end_ns = end_ns},
                use);
}

uint32_t find_group(schema::CallBackend backend, uint64_t handle) noexcept {
  KnownGroup* place = place_of(backend, handle, false);
  return place ? row_in(place->row.load(std::memory_order_relaxed)) : 0;
}

uint32_t add_group(const Group& group) noexcept {
  if (!control::recording()) return 0;
  control::Use use;
  KnownGroup* place = place_of(group.backend, group.handle, true);
  uint32_t row = spool::append(
      schema::GroupRecord{.backend = static_cast<uint32_t>(group.backend),
                          .handle = group.handle,
                          .rank = group.rank,
                          .size = group.size,
                          .name = spool::text(group.name, use),
                          .members = spool::text({reinterpret_cast<const char*>(group.members.data()), group.members.size_bytes()}, use)},
      use);
  if (place) place->row.store(packed(row), std::memory_order_relaxed);
  return row;
}

void forget_group(schema::CallBackend backend, uint64_t handle) noexcept {
  if (KnownGroup* place = place_of(backend, handle, false)) place->row.store(0, std::memory_order_relaxed);
}

void forget_rows() noexcept { recording.fetch_add(1, std::memory_order_relaxed); }

}  // namespace aiflame::calls

const aiflame::calls::Interface* aiflame_calls() noexcept { return &aiflame::calls::kInterface; }
