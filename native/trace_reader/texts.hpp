// Distinct texts, by numbers from 1 in the order in which they are first met. 0 is no text.
#pragma once
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

class Texts {
 public:
  // `most`: so many bytes of distinct texts at most. `seed`: any number that a trace's author cannot know.
  Texts(uint64_t most, uint64_t seed) noexcept : most_(most), seed_(seed) {}

  // False: no memory. A new text that finds no room is "[too many texts]", and is counted.
  bool id(Span text, uint32_t* id) noexcept;

  // Beside 0.
  uint32_t count() const noexcept { return static_cast<uint32_t>(ends_.size()); }
  uint64_t refused() const noexcept { return refused_; }
  // Of a number from 1 to count().
  Span text(uint32_t id) const noexcept {
    uint64_t begin = id == 1 ? 0 : ends_[id - 2];
    return {bytes_.data() + begin, static_cast<size_t>(ends_[id - 1] - begin)};
  }
  Span bytes() const noexcept { return {bytes_.data(), bytes_.size()}; }
  const uint64_t* ends() const noexcept { return ends_.data(); }

 private:
  struct Slot {
    uint32_t hash, id;
  };
  bool grow() noexcept;
  bool add(Span text, uint32_t* id) noexcept;

  Array<char> bytes_;
  Array<uint64_t> ends_;
  Array<Slot> slots_;
  uint64_t most_, seed_, refused_ = 0;
  uint32_t refusal_ = 0;
};

}  // namespace aiflame::trace_reader
