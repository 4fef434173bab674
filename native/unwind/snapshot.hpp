// A sorted array of address ranges that one writer at a time replaces, and that any reader, also in a signal handler, searches without waiting.
//
// Two buffers alternate: a reader copies its result and checks whether the buffer may have been rewritten meanwhile. Memory is never freed (a reader
// may be using it), but grows by doubling, so at most twice the used size is allocated.
#pragma once
#include "base/assertion.hpp"
#include "base/sys.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace aiflame {

template <class Entry>  // has `low` and `high`, and is copied as bytes
class Snapshot {
 public:
  // Copies the entry with low <= address < high.
  bool find(uint64_t address, Entry* out) const noexcept {
    for (;;) {
      uint32_t version = version_.load(std::memory_order_acquire);
      bool found = search(buffers_[version & 1].load(std::memory_order_acquire), address, out);
      std::atomic_thread_fence(std::memory_order_acquire);
      // The buffer that was just read is rewritten only after the next version is published.
      if (version_.load(std::memory_order_relaxed) == version) return found;
    }
  }

  // For the writer: the current entries.
  const Entry* entries() const noexcept {
    const Block* block = buffers_[version_.load(std::memory_order_relaxed) & 1].load(std::memory_order_relaxed);
    return block ? block->entries() : nullptr;
  }
  size_t count() const noexcept {
    const Block* block = buffers_[version_.load(std::memory_order_relaxed) & 1].load(std::memory_order_relaxed);
    return block ? block->count : 0;
  }

  // For the writer: room for the entries that publish() will show, sorted by `low`. nullptr if there is no memory.
  Entry* draft(size_t room) noexcept {
    // A reader that is still in that buffer, and sees a word of the draft in it, then also sees that another version is out.
    std::atomic_thread_fence(std::memory_order_release);
    std::atomic<Block*>& slot = buffers_[(version_.load(std::memory_order_relaxed) + 1) & 1];
    Block* block = slot.load(std::memory_order_relaxed);
    if (block && block->capacity >= room) return block->entries();
    size_t capacity = block ? block->capacity : 256;
    while (capacity < room) capacity *= 2;
    block = static_cast<Block*>(sys::map_memory(sizeof(Block) + capacity * sizeof(Entry)));
    if (!block) return nullptr;
    block->capacity = capacity;
    slot.store(block, std::memory_order_release);
    return block->entries();
  }
  void publish(size_t count) noexcept {
    uint32_t next = version_.load(std::memory_order_relaxed) + 1;
    AIFLAME_ASSERT(count <= buffers_[next & 1].load(std::memory_order_relaxed)->capacity);
    buffers_[next & 1].load(std::memory_order_relaxed)->count = count;
    version_.store(next, std::memory_order_release);
  }

 private:
  struct Block {
    size_t capacity, count;
    Entry* entries() noexcept { return reinterpret_cast<Entry*>(this + 1); }
    const Entry* entries() const noexcept { return reinterpret_cast<const Entry*>(this + 1); }
  };

  // The entry may be half written: find() checks the version afterwards. (A thread sanitizer cannot know that.)
  [[gnu::no_sanitize_thread]] static bool search(const Block* block, uint64_t address, Entry* out) noexcept {
    if (!block) return false;
    const size_t total = block->count;
    if (total > block->capacity) return false;
    const Entry* entries = block->entries();
    size_t first = 0, count = total;
    while (count > 0) {
      size_t half = count / 2;
      if (entries[first + half].high <= address) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    if (first >= total || entries[first].low > address) return false;
    memcpy(static_cast<void*>(out), &entries[first], sizeof(Entry));
    return true;
  }

  std::atomic<uint32_t> version_{0};
  std::atomic<Block*> buffers_[2] = {};
};

}  // namespace aiflame
