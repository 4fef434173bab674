#include "trace_reader/keys.hpp"
#include "trace_reader/decoding.hpp"
#include "trace_reader/hash.hpp"

namespace aiflame::trace_reader {
namespace {

constexpr Span kOthers{"[other keys]", 12};
constexpr uint32_t kNowhere = UINT32_MAX;

bool looks_as_it_is(Span name) noexcept {
  for (size_t at = 0; at < name.size; at++)
    if (name.data[at] == '"' || name.data[at] == '\\') return false;
  return true;
}

}  // namespace

bool Keys::begin(uint64_t seed) noexcept {
  seed_ = seed;
  return keys_.push(Key{.column = kNoColumn}) && (others_ = known(kNowhere, kOthers, true)) != 0;
}

bool Keys::grow() noexcept {
  size_t size = slots_.size() ? slots_.size() * 2 : 256;
  if (!slots_.resize(size)) return false;
  memset(static_cast<void*>(slots_.data()), 0, size * sizeof(uint32_t));
  for (uint32_t key = 1; key < count(); key++) {
    size_t place = hash(name(key), seed_ ^ keys_[key].parent) & (size - 1);
    while (slots_[place]) place = (place + 1) & (size - 1);
    slots_[place] = key;
  }
  return true;
}

uint32_t Keys::known(uint32_t parent, Span name, bool add) noexcept {
  if ((keys_.size() + 1) * 2 > slots_.size() && !grow()) return 0;
  size_t mask = slots_.size() - 1, place = hash(name, seed_ ^ parent) & mask;
  for (; slots_[place]; place = (place + 1) & mask)
    if (keys_[slots_[place]].parent == parent && this->name(slots_[place]) == name) return slots_[place];
  if (!add) return others_;
  uint64_t begin = names_.size();
  if (!names_.append(name.data, name.size)) return 0;
  Key made{.name_begin = begin, .name_size = static_cast<uint32_t>(name.size), .parent = parent, .column = kNoColumn};
  made.unescaped = looks_as_it_is(name);
  if (!keys_.push(made)) return 0;
  return slots_[place] = count() - 1;
}

uint32_t Keys::wanted(uint32_t parent, Span name, uint32_t column) noexcept {
  uint32_t key = known(parent, name, true);
  if (!key) return 0;
  if (column != kNoColumn && keys_[key].column == kNoColumn) keys_[key].column = column;
  if (parent) keys_[parent].wanted_inside = true;
  return key;
}

uint32_t Keys::look_up(uint32_t parent, uint32_t* guess, const char* at, const Scanner& scanner, const char** behind) noexcept {
  bool plain;
  const char* end = scanner.string_end(at + 1, &plain);
  if (!end) {
    *behind = nullptr;
    return 0;
  }
  *behind = end + 1;
  Span name{at + 1, static_cast<size_t>(end - at - 1)};
  if (!plain) {
    decoded_.clear();
    if (name.size <= 8 * kLongestKey && !append_decoded(name, &decoded_)) return 0;
    if (name.size <= 8 * kLongestKey) name = {decoded_.data(), decoded_.size()};
  }
  ptrdiff_t place = reinterpret_cast<const char*>(guess) - reinterpret_cast<const char*>(keys_.data());
  uint32_t key = known(parent, name, name.size <= kLongestKey && keys_.size() < kMostKeys);
  // keys_ may have moved.
  if (key) memcpy(reinterpret_cast<char*>(keys_.data()) + place, &key, sizeof key);
  return key;
}

}  // namespace aiflame::trace_reader
