// Where JSON values end. Every value is checked against the grammar on the way (numbers only by their characters), so that damage is found
// where it is, not at the end of the document. Control characters within strings are let through, as NaN and Infinity are.
#pragma once
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

// Behind the end of all bytes that are scanned there are so many zeros.
constexpr size_t kPadding = 64;
constexpr int kMostDepth = 64;

enum class Sort : uint8_t { NONE, STRING, NUMBER, NOT_A_NUMBER, TRUE, FALSE, EMPTY, OBJECT, ARRAY };

// A value as it stands; that of a string lies between its quotes.
struct Value {
  Span text;
  Sort sort = Sort::NONE;
  bool plain = true;  // of a string: neither an escape nor a byte above 0x7f is in it
};

enum class Outcome : uint8_t { DONE, CUT, DAMAGED };

class Scanner {
 public:
  explicit Scanner(const char* end) noexcept : end_(end) {}

  // The first byte that is no white space.
  static const char* skip_space(const char* at) noexcept {
    if (static_cast<unsigned char>(*at) > ' ') return at;
    if (*at == ' ' && static_cast<unsigned char>(at[1]) > ' ') return at + 1;
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') at++;
    return at;
  }

  // `at`: behind the opening quote. Returns the closing quote; null: the string is cut.
  const char* string_end(const char* at, bool* plain) const noexcept;
  // `at`: at the first byte of a value that may have `depth` levels. Returns the first byte behind it; null: why() says more.
  const char* value_end(const char* at, int depth, Value* value) noexcept;

  // How many bytes are left at `at`, which lies before the end.
  size_t left(const char* at) const noexcept { return static_cast<size_t>(end_ - at); }
  Outcome why() const noexcept { return why_; }
  // Remembers that the bytes end before the value does; returns null.
  const char* cut() noexcept { return wrong(end_); }
  // Remembers whether the byte, where another was expected, is damage or the end; returns null.
  const char* wrong(const char* at) noexcept {
    why_ = at >= end_ ? Outcome::CUT : Outcome::DAMAGED;
    return nullptr;
  }

 private:
  const char* word_end(const char* at, const char* word, size_t size) noexcept;
  const char* object_end(const char* at, int depth) noexcept;
  const char* array_end(const char* at, int depth) noexcept;

  const char* end_;
  Outcome why_ = Outcome::DONE;
};

// Of a number's characters.
inline bool in_number(char byte) noexcept {
  return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' || byte == 'e' || byte == 'E';
}

}  // namespace aiflame::trace_reader
