#include "unwind/stack_trie.hpp"

#include "base/assertion.hpp"
#include "base/fresh_memory.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"
#include "unwind/generation.hpp"

#include <atomic>

namespace aiflame::trie {

namespace {

// Level k has 4096 << 6k slots of (fingerprint << 32 | node). A key lives in the first level that had an empty slot in its
// window; slots never become empty again, so an empty slot ends the search.
constexpr uint32_t kLevels = 3, kWindow = 16;
std::atomic<std::atomic<uint64_t>*> levels[kLevels];
std::atomic<uint32_t> cleared{0};

// The first level suffices for a small program; the next (2 MB if touched) for most others: a search looks into few levels.
constexpr uint64_t slots_of(uint32_t level) { return 4096ull << (6 * level); }

uint64_t mix(uint32_t parent, FrameWord frame) noexcept {
  uint64_t hash = (frame ^ static_cast<uint64_t>(parent) << 21) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
  hash *= 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 32;
}

std::atomic<uint64_t>* level_at(uint32_t level) noexcept {
  std::atomic<uint64_t>* slots = levels[level].load(std::memory_order_acquire);
  if (slots) return slots;
  size_t bytes = slots_of(level) * sizeof(std::atomic<uint64_t>);
  auto* made = static_cast<std::atomic<uint64_t>*>(fresh_memory::map(bytes));
  if (!made) return nullptr;
  if (levels[level].compare_exchange_strong(slots, made, std::memory_order_acq_rel)) return made;
  sys::unmap_memory(made, bytes);
  return slots;
}

bool is(uint32_t node, uint32_t parent, FrameWord frame) noexcept {
  const auto* record = spool::at<schema::StackNode>(node);
  return record && record->parent == parent && record->frame == frame;
}

}  // namespace

uint32_t node(uint32_t parent, FrameWord frame) noexcept {
  uint64_t hash = mix(parent, frame);
  uint32_t made = 0;
  std::atomic<uint64_t>* last = nullptr;
  for (uint32_t level = 0; level < kLevels; level++) {
    std::atomic<uint64_t>* slots = level_at(level);
    if (!slots) break;
    uint64_t mask = slots_of(level) - 1;
    last = &slots[hash & mask];
    for (uint32_t step = 0; step < kWindow; step++) {
      std::atomic<uint64_t>& slot = slots[(hash + step) & mask];
      uint64_t value = slot.load(std::memory_order_acquire);
      if (value == 0) {
        if (!made) made = spool::append(schema::StackNode{.parent = parent, .frame = frame});
        if (!made) return 0;
        uint64_t mine = (hash >> 32) << 32 | made;
        if (slot.compare_exchange_strong(value, mine, std::memory_order_acq_rel)) return made;
        // Another thread took the slot in between: perhaps for this very key (our row then stays an unused duplicate).
      }
      AIFLAME_ASSERT(static_cast<uint32_t>(value) != 0);  // a slot that is taken has a node
      if (value >> 32 == hash >> 32 && is(static_cast<uint32_t>(value), parent, frame)) return static_cast<uint32_t>(value);
    }
  }
  // Full, or no memory for a further level: the newest key replaces another, which will be written twice.
  if (!made) made = spool::append(schema::StackNode{.parent = parent, .frame = frame});
  if (made && last) last->store((hash >> 32) << 32 | made, std::memory_order_release);
  return made;
}

uint32_t generation() noexcept { return cleared.load(std::memory_order_relaxed); }

// The memory stays (it reads as zeros): a capture may still be reading it.
void clear(fresh_memory::Who who) noexcept {
  cleared.fetch_add(1, std::memory_order_relaxed);
  generation::end();
  for (uint32_t level = 0; level < kLevels; level++)
    if (auto* slots = levels[level].load(std::memory_order_acquire)) fresh_memory::clear(slots, slots_of(level) * sizeof *slots, who);
}

}  // namespace aiflame::trie
