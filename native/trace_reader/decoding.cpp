#include "trace_reader/decoding.hpp"

namespace aiflame::trace_reader {
namespace {

constexpr Span kReplacement{"\xEF\xBF\xBD", 3};

uint8_t byte_at(Span text, size_t at) noexcept { return at < text.size ? static_cast<uint8_t>(text.data[at]) : 0; }
bool within(uint8_t byte, uint8_t low, uint8_t high) noexcept { return low <= byte && byte <= high; }

// How many bytes at `at` belong to one character, or to the beginning of one that is broken off (Unicode, table 3-7).
size_t character(Span text, size_t at, bool* valid) noexcept {
  uint8_t first = byte_at(text, at), second = byte_at(text, at + 1);
  *valid = true;
  if (first < 0x80) return 1;
  size_t length = within(first, 0xC2, 0xDF) ? 2 : within(first, 0xE0, 0xEF) ? 3 : within(first, 0xF0, 0xF4) ? 4 : 0;
  uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80, high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  *valid = false;
  if (!length || !within(second, low, high)) return 1;
  for (size_t done = 2; done < length; done++)
    if (!within(byte_at(text, at + done), 0x80, 0xBF)) return done;
  *valid = true;
  return length;
}

bool append_character(Span text, size_t* at, Array<char>* to) noexcept {
  bool valid;
  size_t length = character(text, *at, &valid);
  Span added = valid ? Span{text.data + *at, length} : kReplacement;
  *at += length;
  return to->append(added.data, added.size);
}

// The four digits of a \u escape; -1: they are none.
int hexadecimal(Span text, size_t at) noexcept {
  if (at + 4 > text.size) return -1;
  int value = 0;
  for (size_t end = at + 4; at < end; at++) {
    uint8_t byte = byte_at(text, at), letter = byte | 0x20;
    int digit = within(byte, '0', '9') ? byte - '0' : within(letter, 'a', 'f') ? letter - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool append_point(uint32_t point, Array<char>* to) noexcept {
  if (point >= 0xD800 && point <= 0xDFFF) return to->append(kReplacement.data, kReplacement.size);
  char bytes[4];
  size_t count = 0;
  if (point < 0x80) {
    bytes[count++] = static_cast<char>(point);
  } else if (point < 0x800) {
    bytes[count++] = static_cast<char>(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    bytes[count++] = static_cast<char>(0xE0 | point >> 12);
    bytes[count++] = static_cast<char>(0x80 | (point >> 6 & 0x3F));
  } else {
    bytes[count++] = static_cast<char>(0xF0 | point >> 18);
    bytes[count++] = static_cast<char>(0x80 | (point >> 12 & 0x3F));
    bytes[count++] = static_cast<char>(0x80 | (point >> 6 & 0x3F));
  }
  if (point >= 0x80) bytes[count++] = static_cast<char>(0x80 | (point & 0x3F));
  return to->append(bytes, count);
}

// `at`: behind the backslash.
bool append_escape(Span text, size_t* at, Array<char>* to) noexcept {
  static constexpr char kNames[] = "\"\\/bfnrt", kMeanings[] = "\"\\/\b\f\n\r\t";
  char name = static_cast<char>(byte_at(text, *at));
  int high = name == 'u' ? hexadecimal(text, *at + 1) : -1;
  if (high >= 0) {
    *at += 5;
    uint32_t point = static_cast<uint32_t>(high);
    if (within(static_cast<uint8_t>(high >> 8), 0xD8, 0xDB) && byte_at(text, *at) == '\\' && byte_at(text, *at + 1) == 'u') {
      int low = hexadecimal(text, *at + 2);
      if (low >= 0xDC00 && low <= 0xDFFF) {
        *at += 6;
        point = 0x10000 + ((point - 0xD800) << 10) + (static_cast<uint32_t>(low) - 0xDC00);
      }
    }
    return append_point(point, to);
  }
  const char* place = name ? strchr(kNames, name) : nullptr;
  if (!place) return to->push('\\');
  ++*at;
  return to->push(kMeanings[place - kNames]);
}

}  // namespace

bool is_ascii(Span text) noexcept {
  size_t at = 0;
  for (; at + 8 <= text.size; at += 8) {
    uint64_t word;
    memcpy(&word, text.data + at, 8);
    if (word & 0x8080808080808080u) return false;
  }
  for (; at < text.size; at++)
    if (text.data[at] & 0x80) return false;
  return true;
}

bool append_valid(Span text, Array<char>* to) noexcept {
  if (is_ascii(text)) return to->append(text.data, text.size);
  if (!to->reserve(to->size() + text.size)) return false;
  for (size_t at = 0; at < text.size;)
    if (!append_character(text, &at, to)) return false;
  return true;
}

bool append_decoded(Span string, Array<char>* to) noexcept {
  if (!to->reserve(to->size() + string.size)) return false;
  for (size_t at = 0; at < string.size;) {
    bool escape = string.data[at] == '\\';
    at += escape;
    if (!(escape ? append_escape(string, &at, to) : append_character(string, &at, to))) return false;
  }
  return true;
}

}  // namespace aiflame::trace_reader
