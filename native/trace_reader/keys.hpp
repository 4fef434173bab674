// The keys of events, on their first two levels: which are wanted, and how often each of the others came.
#pragma once
#include "trace_reader/scanner.hpp"

namespace aiflame::trace_reader {

constexpr uint32_t kNoColumn = UINT32_MAX;
constexpr uint32_t kMostKeys = 20'000;  // more of them, and longer ones, count as one
constexpr size_t kLongestKey = 1024;

struct Key {
  uint64_t name_begin;
  uint32_t name_size;
  uint32_t parent;  // the key of the object that has it; 0: an event
  uint32_t column;  // the first column that wants it
  uint64_t unused;  // events that have it and in which nobody wants it
  // The keys that came last, so that the name of the next one need only be compared.
  uint32_t first_inside, next;
  bool wanted_inside;  // a key below it is wanted
  bool unescaped;      // between quotes it looks as its name does
};

class Keys {
 public:
  // False: no memory.
  bool begin(uint64_t seed) noexcept;
  // The key of a name that some column wants; 0: no memory.
  uint32_t wanted(uint32_t parent, Span name, uint32_t column) noexcept;

  // The key whose opening quote `at` is at, in an object of `parent` behind `previous` (0: the first); `behind`: the first byte after it. 0: the
  // string is cut (`behind` is null) or there is no memory.
  uint32_t find(uint32_t parent, uint32_t previous, const char* at, const Scanner& scanner, const char** behind) noexcept {
    uint32_t& guess = previous ? keys_[previous].next : keys_[parent].first_inside;
    const Key& key = keys_[guess];
    if (guess && key.parent == parent && key.unescaped && key.name_size + 1 < scanner.left(at) && at[1 + key.name_size] == '"' &&
        memcmp(at + 1, names_.data() + key.name_begin, key.name_size) == 0) {
      *behind = at + key.name_size + 2;
      return guess;
    }
    return look_up(parent, &guess, at, scanner, behind);
  }

  Key& operator[](uint32_t key) noexcept { return keys_[key]; }
  const Key& operator[](uint32_t key) const noexcept { return keys_[key]; }
  // Keys have the numbers from 1 to count() - 1.
  uint32_t count() const noexcept { return static_cast<uint32_t>(keys_.size()); }
  // 0: it is a key of events.
  uint32_t parent(uint32_t key) const noexcept { return key == others_ ? 0 : keys_[key].parent; }
  Span name(uint32_t key) const noexcept { return {names_.data() + keys_[key].name_begin, keys_[key].name_size}; }

 private:
  uint32_t look_up(uint32_t parent, uint32_t* guess, const char* at, const Scanner& scanner, const char** behind) noexcept;
  uint32_t known(uint32_t parent, Span name, bool add) noexcept;
  bool grow() noexcept;

  Array<Key> keys_;
  Array<char> names_, decoded_;
  Array<uint32_t> slots_;
  uint64_t seed_ = 0;
  uint32_t others_ = 0;  // no key of an event has its name
};

}  // namespace aiflame::trace_reader
