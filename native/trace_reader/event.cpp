#include "trace_reader/event.hpp"

namespace aiflame::trace_reader {

bool Event::begin(Keys* keys, const uint32_t* next, uint32_t columns) noexcept {
  keys_ = keys;
  next_ = next;
  return values_.resize(columns);
}

const char* Event::read(const char* at, const char* end, Outcome* outcome) noexcept {
  for (size_t column = 0; column < values_.size(); column++) values_[column] = Value{};
  unused_.clear();
  Scanner scanner(end);
  at = read_object(at, 0, scanner);
  *outcome = at ? Outcome::DONE : scanner.why();
  return at;
}

const char* Event::read_object(const char* at, uint32_t parent, Scanner& scanner) noexcept {
  at = Scanner::skip_space(at + 1);
  if (*at == '}') return at + 1;
  for (uint32_t key = 0;;) {
    if (*at != '"') return scanner.wrong(at);
    const char* behind;
    key = keys_->find(parent, key, at, scanner, &behind);
    if (!key) return behind ? no_memory() : scanner.cut();
    at = Scanner::skip_space(behind);
    if (*at != ':') return scanner.wrong(at);
    at = read_value(Scanner::skip_space(at + 1), key, parent != 0, scanner);
    if (!at) return nullptr;
    at = Scanner::skip_space(at);
    if (*at == '}') return at + 1;
    if (*at != ',') return scanner.wrong(at);
    at = Scanner::skip_space(at + 1);
  }
}

const char* Event::read_value(const char* at, uint32_t key, bool inside, Scanner& scanner) noexcept {
  const char* end;
  Value value;
  bool object = !inside && *at == '{';
  if (object) {
    end = read_object(at, key, scanner);
    if (end) value = {.text = {at, static_cast<size_t>(end - at)}, .sort = Sort::OBJECT, .plain = false};
  } else {
    end = scanner.value_end(at, inside ? kMostDepth - 2 : kMostDepth - 1, &value);
  }
  if (!end) return nullptr;
  const Key& known = (*keys_)[key];
  for (uint32_t column = known.column; column != kNoColumn; column = next_[column]) values_[column] = value;
  if (known.column == kNoColumn && !(object && known.wanted_inside) && !unused_.push(key)) return no_memory();
  return end;
}

bool Event::has_wanted() const noexcept {
  for (size_t column = 0; column < values_.size(); column++)
    if (values_[column].sort != Sort::NONE) return true;
  return false;
}

void Event::count_unused() noexcept {
  for (size_t at = 0; at < unused_.size(); at++) (*keys_)[unused_[at]].unused++;
}

}  // namespace aiflame::trace_reader
