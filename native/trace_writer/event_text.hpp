// Events as text: each row is the same pieces, with the row's own numbers and names.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::trace_writer {

enum class Kind : int32_t {
  TEXT,          // `size` bytes of `text`
  NUMBER,        // the column's
  MICROSECONDS,  // the column's nanoseconds, with three decimals
  CHOSEN,        // the text that the column numbers: it ends at `ends[number + 1]` of `text`, and begins where the one before ends
  AT_LEAST,      // where the column's number is less than `size`, the next `count` pieces are left out
  MEMBERS,       // `,"args":{…` of the next `count` pieces, which each write `,"name":value` or nothing; nothing at all if they all do
};

struct Piece {
  Kind kind;
  int32_t count;
  int64_t size;
  const char* text;
  const int64_t *column, *ends;
};

struct Events {
  const Piece* pieces;
  int64_t count, rows;
};

// Writes rows from `*row` on while they fit, each after ",\n"; the very first one of a file (`is_first`) after "\n". Gives the bytes written, and
// moves
// `*row` to the first row that is not; 0 bytes: `room` is too small for it.
size_t write(const Events& events, int64_t* row, bool is_first, char* to, size_t room) noexcept;

}  // namespace aiflame::trace_writer
