// A hash of bytes that a trace's author cannot foresee, as wyhash mixes them.
#pragma once
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

inline uint64_t mixed(uint64_t left, uint64_t right) noexcept {
  unsigned __int128 product = static_cast<unsigned __int128>(left) * right;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename Word>
uint64_t word(const char* at) noexcept {
  Word value;
  memcpy(&value, at, sizeof value);
  return value;
}

inline uint64_t hash(Span text, uint64_t seed) noexcept {
  uint64_t sum = seed ^ text.size;
  size_t at = 0;
  for (; at + 16 <= text.size; at += 16)
    sum = mixed(word<uint64_t>(text.data + at) ^ 0xA0761D6478BD642Fu, word<uint64_t>(text.data + at + 8) ^ sum ^ 0xE7037ED1A0B428DBu);
  uint64_t low = 0, high = 0;
  if (size_t left = text.size - at; left >= 8) {  // two words that may overlap
    low = word<uint64_t>(text.data + at);
    high = word<uint64_t>(text.data + text.size - 8);
  } else if (left >= 4) {
    low = word<uint32_t>(text.data + at);
    high = word<uint32_t>(text.data + text.size - 4);
  } else {
    for (; at < text.size; at++) low = low << 8 | static_cast<uint8_t>(text.data[at]);
  }
  sum = mixed(low ^ 0x8EBC6AF09C88C6E3u, high ^ sum ^ 0x589965CC75374CC3u);
  return mixed(sum, 0x1D8E4E27C47D124Fu);
}

}  // namespace aiflame::trace_reader
