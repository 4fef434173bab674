#include "unwind/python_layers.hpp"

#include "base/clock.hpp"
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"

#include <sys/mman.h>
#include <atomic>
#include <cstring>

namespace aiflame::python::layers {

namespace {

Layout at;

// Address → hash of its type's address, whether it has a name, and its row; 0 before its first occurrence. One word, so that a reader never
// combines the type of one object with the row of another. Level k has 4096 << 4k slots. An address stays in its slot, so that an empty one ends
// the search.
struct Slot {
  std::atomic<uint64_t> address, known;
};
constexpr uint32_t kLevels = 3, kWindow = 16;
constexpr uint64_t kNamed = 1ull << 31, kRows = kNamed - 1, kType = ~0ull << 32;
std::atomic<Slot*> levels[kLevels];

constexpr uint64_t slots_of(uint32_t level) { return 4096ull << (4 * level); }

// How many rows were written without a name, and the results of asking for names.
std::atomic<uint32_t> met{0}, nameless{0}, met_when_asked{0};
constexpr uint64_t kAskEvery = 100'000'000, kAskSeldom = 10'000'000'000;
std::atomic<uint64_t> asked_at{0}, ask_after{kAskEvery};

Slot* level_at(uint32_t level) noexcept {
  Slot* slots = levels[level].load(std::memory_order_acquire);
  if (slots) return slots;
  size_t bytes = slots_of(level) * sizeof(Slot);
  auto* made = static_cast<Slot*>(sys::map_memory(bytes));
  if (!made) return nullptr;
  if (levels[level].compare_exchange_strong(slots, made, std::memory_order_acq_rel)) return made;
  sys::unmap_memory(made, bytes);
  return slots;
}

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;

// The slot of an address. With `make`, takes one if there is none; nullptr when there is no memory.
Slot* slot_of(uint64_t address, bool make) noexcept {
  uint64_t hash = (address >> 4) * kOdd;
  hash ^= hash >> 32;
  Slot* last = nullptr;
  for (uint32_t level = 0; level < kLevels; level++) {
    Slot* slots = make ? level_at(level) : levels[level].load(std::memory_order_acquire);
    if (!slots) break;
    for (uint32_t step = 0; step < kWindow; step++) {
      Slot& slot = slots[(hash + step) & (slots_of(level) - 1)];
      uint64_t owner = slot.address.load(std::memory_order_acquire);
      if (owner == address) return &slot;
      if (owner == 0) {
        if (!make) return nullptr;
        if (slot.address.compare_exchange_strong(owner, address, std::memory_order_acq_rel) || owner == address) return &slot;
      }
      last = &slot;
    }
  }
  // Full: the newest object replaces another one, which gets a new row when it occurs again.
  if (!make || !last) return nullptr;
  last->known.store(0, std::memory_order_release);
  last->address.store(address, std::memory_order_release);
  return last;
}

bool is_address(uint64_t value) noexcept { return value > 4096 && value < 1ull << 47 && value % 8 == 0; }

uint64_t hash_of_type(uint64_t type) noexcept { return (type * kOdd) & kType; }

// The C string at `from`, byte for byte; 0: there is no string that can be a name.
size_t copy_name(uint64_t from, char* out, size_t room) noexcept {
  for (size_t done = 0; done < room; done++) {
    uint64_t word = safe_load((from + done) & ~7ull);
    auto character = static_cast<char>(word >> (from + done) % 8 * 8);
    if (character == 0) return done;
    if (static_cast<unsigned char>(character) < ' ') return 0;
    out[done] = character;
  }
  return room;
}

// PyTypeObject: tp_name comes after the head of an object with a size.
uint32_t write_row(uint64_t address, uint64_t type) noexcept {
  char name[128];
  if (!is_address(safe_load(type + at.object_type))) return 0;
  size_t length = copy_name(safe_load(type + at.object_size + 8), name, sizeof name);
  if (!length) return 0;
  uint32_t row = spool::append(schema::LayerRecord{.address = address, .type = spool::text({name, length}), .seen_ns = now_ns()});
  return row <= kRows ? row : 0;
}

// Two threads may see a new object at the same time: the row of one stays unused.
__attribute__((noinline)) uint64_t add(Slot* slot, uint64_t address, uint64_t type, uint64_t before) noexcept {
  uint32_t row = write_row(address, type);
  if (!row) return 0;
  uint64_t mine = hash_of_type(type) | row;
  if (!slot->known.compare_exchange_strong(before, mine, std::memory_order_acq_rel)) return (before & kType) == hash_of_type(type) ? before : mine;
  bool one_less = (before & kRows) && !(before & kNamed);
  if (!one_less) nameless.fetch_add(1, std::memory_order_relaxed);
  met.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

// The entry of the object at `address`, made if there is none; 0 when there is no object.
uint64_t known_of(uint64_t address, Slot** where) noexcept {
  if (!is_address(address)) return 0;
  uint64_t type = safe_load(address + at.object_type);
  if (!is_address(type)) return 0;
  Slot* slot = slot_of(address, true);
  if (!slot) return 0;
  *where = slot;
  uint64_t known = slot->known.load(std::memory_order_acquire);
  if ((known & kType) == hash_of_type(type) && (known & kRows)) return known;
  return add(slot, address, type, known);
}

}  // namespace

void use(const Layout& layout) noexcept { at = layout; }

uint32_t row_of(uint64_t address) noexcept {
  Slot* slot = nullptr;
  return static_cast<uint32_t>(known_of(address, &slot) & kRows);
}

Read word_of(uint64_t address) noexcept {
  Slot* slot = nullptr;
  uint64_t known = known_of(address, &slot);
  return known ? Read{reinterpret_cast<uint64_t>(&slot->known), known} : Read{};
}

uint32_t name(uint64_t address, uint64_t root, std::string_view path, std::string_view type) noexcept {
  control::Use use;
  Slot* slot = nullptr;
  uint64_t known = known_of(address, &slot);
  uint32_t root_row = address == root ? static_cast<uint32_t>(known & kRows) : row_of(root);
  if (!known || !root_row) return 0;
  if (!(known & kNamed) && slot->known.compare_exchange_strong(known, known | kNamed, std::memory_order_acq_rel))
    nameless.fetch_sub(1, std::memory_order_relaxed);
  return spool::append(
      schema::LayerName{.layer = static_cast<uint32_t>(known & kRows), .root = root_row, .path = spool::text(path), .type = spool::text(type)});
}

void forget(uint64_t address) noexcept {
  Slot* slot = slot_of(address, false);
  if (!slot) return;
  uint64_t known = slot->known.exchange(0, std::memory_order_acq_rel);
  if ((known & kRows) && !(known & kNamed)) nameless.fetch_sub(1, std::memory_order_relaxed);
}

bool names_are_due(uint64_t now) noexcept {
  if (static_cast<int32_t>(nameless.load(std::memory_order_relaxed)) <= 0) return false;
  bool any_new = met.load(std::memory_order_relaxed) != met_when_asked.load(std::memory_order_relaxed);
  return now - asked_at.load(std::memory_order_relaxed) >= (any_new ? kAskEvery : ask_after.load(std::memory_order_relaxed));
}

void names_are_asked(uint64_t now) noexcept {
  uint32_t seen = met.load(std::memory_order_relaxed);
  bool any_new = met_when_asked.exchange(seen, std::memory_order_relaxed) != seen;
  uint64_t longer = 2 * ask_after.load(std::memory_order_relaxed);
  ask_after.store(any_new ? kAskEvery : (longer < kAskSeldom ? longer : kAskSeldom), std::memory_order_relaxed);
  asked_at.store(now, std::memory_order_relaxed);
}

// The memory stays (it reads as zeros): a walk may still be reading it.
void forget_rows() noexcept {
  for (uint32_t level = 0; level < kLevels; level++)
    if (Slot* slots = levels[level].load(std::memory_order_acquire))
      sys::call(SYS_madvise, reinterpret_cast<long>(slots), static_cast<long>(slots_of(level) * sizeof *slots), MADV_DONTNEED);
  met.store(0, std::memory_order_relaxed);
  nameless.store(0, std::memory_order_relaxed);
  met_when_asked.store(0, std::memory_order_relaxed);
  asked_at.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::python::layers
