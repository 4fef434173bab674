// Formats text in a handler: snprintf() takes locks, and reads thread-local memory that the interrupted thread may not have.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace aiflame::text {

// Each function returns the end of the text; the buffer must have room.
inline char* put(char* out, const char* text) noexcept {
  size_t length = strlen(text);
  memcpy(out, text, length);
  return out + length;
}
inline char* put(char* out, uint64_t number) noexcept {
  char digits[20];
  size_t count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while (number /= 10);
  while (count) *out++ = digits[--count];
  return out;
}

inline char* put(char* out, uint32_t number) noexcept { return put(out, uint64_t{number}); }

}  // namespace aiflame::text
