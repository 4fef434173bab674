#include "trace_writer/event_text.hpp"

#include <cstring>

namespace aiflame::trace_writer {
namespace {

constexpr char kArgs[] = ",\"args\":";
constexpr size_t kMostDigits = 20;

class Text {
 public:
  Text(char* to, size_t room) noexcept : begin_(to), at_(to), end_(to + room) {}

  size_t size() const noexcept { return static_cast<size_t>(at_ - begin_); }
  void cut(size_t size) noexcept { at_ = begin_ + size; }
  void put(size_t place, char letter) noexcept { begin_[place] = letter; }

  bool add(const char* from, size_t size) noexcept {
    if (size > static_cast<size_t>(end_ - at_)) return false;
    memcpy(at_, from, size);
    at_ += size;
    return true;
  }
  bool number(int64_t value) noexcept { return (value >= 0 || add("-", 1)) && digits(size_of(value)); }
  bool microseconds(int64_t value) noexcept {
    uint64_t size = size_of(value), rest = size % 1000;
    char decimals[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10), static_cast<char>('0' + rest % 10)};
    return (value >= 0 || add("-", 1)) && digits(size / 1000) && add(decimals, sizeof decimals);
  }

 private:
  static uint64_t size_of(int64_t value) noexcept { return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value); }

  bool digits(uint64_t value) noexcept {
    char text[kMostDigits];
    char* from = text + sizeof text;
    do *--from = static_cast<char>('0' + value % 10);
    while (value /= 10);
    return add(from, static_cast<size_t>(text + sizeof text - from));
  }

  char *begin_, *at_, *end_;
};

bool pieces(const Piece* piece, const Piece* end, int64_t row, Text* to) noexcept;

// The comma before the first member gives its place to the brace.
bool members(const Piece* piece, int64_t row, Text* to) noexcept {
  size_t before = to->size();
  if (!to->add(kArgs, sizeof kArgs - 1)) return false;
  size_t first = to->size();
  if (!pieces(piece + 1, piece + 1 + piece->count, row, to)) return false;
  if (to->size() == first) return to->cut(before), true;
  to->put(first, '{');
  return to->add("}", 1);
}

bool pieces(const Piece* piece, const Piece* end, int64_t row, Text* to) noexcept {
  for (; piece < end; piece++) {
    switch (piece->kind) {
      case Kind::TEXT:
        if (!to->add(piece->text, static_cast<size_t>(piece->size))) return false;
        break;
      case Kind::NUMBER:
        if (!to->number(piece->column[row])) return false;
        break;
      case Kind::MICROSECONDS:
        if (!to->microseconds(piece->column[row])) return false;
        break;
      case Kind::CHOSEN: {
        const int64_t* ends = piece->ends + piece->column[row];
        if (!to->add(piece->text + ends[0], static_cast<size_t>(ends[1] - ends[0]))) return false;
        break;
      }
      case Kind::AT_LEAST:
        if (piece->column[row] < piece->size) piece += piece->count;
        break;
      case Kind::MEMBERS:
        if (!members(piece, row, to)) return false;
        piece += piece->count;
        break;
    }
  }
  return true;
}

}  // namespace

size_t write(const Events& events, int64_t* row, bool is_first, char* to, size_t room) noexcept {
  Text text(to, room);
  for (; *row < events.rows; ++*row) {
    size_t before = text.size();
    bool first = is_first && before == 0;
    if (!text.add(first ? "\n" : ",\n", first ? 1 : 2) || !pieces(events.pieces, events.pieces + events.count, *row, &text)) {
      text.cut(before);
      break;
    }
  }
  return text.size();
}

}  // namespace aiflame::trace_writer
