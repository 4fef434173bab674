// Growing arrays and tables of numbers for this folder's files, without libstdc++'s: those bring its handling of exceptions into the collector.
// Without memory, additions are lost.
#pragma once
#include "base/sys.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace aiflame::rocprofiler {

// Held for a few lines.
class Lock {
 public:
  explicit Lock(std::atomic<bool>& held) noexcept : held_(held) {
    while (held_.exchange(true, std::memory_order_acquire)) sys::call(SYS_sched_yield);
  }
  ~Lock() { held_.store(false, std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::atomic<bool>& held_;
};

// Its owner calls clear().
template <class Item>
class List {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  Item* begin() const noexcept { return items_; }
  Item* end() const noexcept { return items_ + count_; }
  uint32_t size() const noexcept { return count_; }
  bool add(const Item& item) noexcept {
    if (count_ == room_ && !grow()) return false;
    items_[count_++] = item;
    return true;
  }
  bool add_all(const List& others) noexcept {
    for (const Item& one : others)
      if (!add(one)) return false;
    return true;
  }
  void clear() noexcept {
    free(items_);
    *this = {};
  }

 private:
  bool grow() noexcept {
    uint32_t room = room_ ? room_ * 2 : 16;
    auto* items = static_cast<Item*>(malloc(room * sizeof(Item)));
    if (!items) return false;
    if (count_) memcpy(static_cast<void*>(items), items_, count_ * sizeof(Item));
    free(items_);
    items_ = items;
    room_ = room;
    return true;
  }
  Item* items_ = nullptr;
  uint32_t count_ = 0, room_ = 0;
};

// Numbers by number, none of them 0. A key that was removed keeps its place: handles come again.
class Table {
 public:
  uint64_t find(uint64_t key) const noexcept {
    const Entry* place = room_ ? place_of(key) : nullptr;
    return place && place->key == key ? place->value : 0;
  }
  // `value` 0: removes it.
  bool set(uint64_t key, uint64_t value) noexcept {
    if (!key || (!value && !find(key))) return true;
    if (used_ * 2 >= room_ && !grow()) return false;
    Entry* place = place_of(key);
    used_ += place->key == 0;
    *place = {key, value};
    return true;
  }
  template <class Use>
  void each(Use use) noexcept {
    for (uint32_t at = 0; at < room_; at++)
      if (entries_[at].value) use(entries_[at].key, entries_[at].value);
  }
  void clear() noexcept {
    free(entries_);
    *this = {};
  }

 private:
  struct Entry {
    uint64_t key, value;
  };
  Entry* place_of(uint64_t key) const noexcept {
    uint64_t hash = key * 0x9E3779B97F4A7C15ull;
    for (uint64_t at = hash >> 32;; at++)
      if (Entry& one = entries_[at & (room_ - 1)]; one.key == key || one.key == 0) return &one;
  }
  bool grow() noexcept {
    Table larger;
    larger.room_ = room_ ? room_ * 2 : 64;
    larger.entries_ = static_cast<Entry*>(calloc(larger.room_, sizeof(Entry)));
    if (!larger.entries_) return false;
    each([&](uint64_t key, uint64_t value) {
      *larger.place_of(key) = {key, value};
      larger.used_++;
    });
    free(entries_);
    *this = larger;
    return true;
  }
  Entry* entries_ = nullptr;
  uint32_t room_ = 0, used_ = 0;
};

}  // namespace aiflame::rocprofiler
