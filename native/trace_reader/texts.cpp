#include "trace_reader/texts.hpp"
#include "trace_reader/hash.hpp"

namespace aiflame::trace_reader {
namespace {

constexpr Span kTooMany{"[too many texts]", 16};

}  // namespace

bool Texts::grow() noexcept {
  size_t size = slots_.size() ? slots_.size() * 2 : 1024;
  Array<Slot> before;
  if (!before.append(slots_.data(), slots_.size()) || !slots_.resize(size)) return false;
  memset(static_cast<void*>(slots_.data()), 0, size * sizeof(Slot));
  for (size_t at = 0; at < before.size(); at++) {
    if (!before[at].id) continue;
    size_t place = before[at].hash & (size - 1);
    while (slots_[place].id) place = (place + 1) & (size - 1);
    slots_[place] = before[at];
  }
  return true;
}

bool Texts::add(Span text, uint32_t* id) noexcept {
  if (!bytes_.append(text.data, text.size) || !ends_.push(bytes_.size())) return false;
  *id = count();
  return true;
}

bool Texts::id(Span text, uint32_t* id) noexcept {
  if ((ends_.size() + 1) * 2 > slots_.size() && !grow()) return false;
  uint32_t short_hash = static_cast<uint32_t>(hash(text, seed_));
  size_t mask = slots_.size() - 1, place = short_hash & mask;
  for (; slots_[place].id; place = (place + 1) & mask) {
    if (slots_[place].hash != short_hash || !(this->text(slots_[place].id) == text)) continue;
    *id = slots_[place].id;
    return true;
  }
  if (text.size > most_ || bytes_.size() > most_ - text.size || ends_.size() >= UINT32_MAX / 2) {
    refused_++;
    if (!refusal_ && !add(kTooMany, &refusal_)) return false;
    *id = refusal_;
    return true;
  }
  if (!add(text, id)) return false;
  slots_[place] = {short_hash, *id};
  return true;
}

}  // namespace aiflame::trace_reader
