// The functions of libc that the compiler calls by itself, and a few more, for this library alone.
//
// Handlers use them at any moment. libc's may be replaced by a sanitizer's, which keep state in thread-local memory and must not interrupt
// themselves. Most copied and compared data are records or names of tens of bytes.
#include <cstddef>
#include <cstdint>

#define AIFLAME_OWN extern "C" [[gnu::used, gnu::optimize("no-tree-loop-distribute-patterns")]]

// Exported, they would replace the program's, too. An attribute comes too late: the compiler has already declared these functions itself.
asm(".hidden memcpy, memmove, memset, memcmp, memchr, strnlen, strlen, strncmp, strcmp");

namespace {

using Vector [[gnu::vector_size(16)]] = char;
using Block [[gnu::may_alias, gnu::aligned(1)]] = Vector;
using Word [[gnu::may_alias, gnu::aligned(1)]] = uint64_t;

inline void move_block(char* to, const char* from) noexcept { *reinterpret_cast<Block*>(to) = *reinterpret_cast<const Block*>(from); }
inline void move_word(char* to, const char* from) noexcept { *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from); }

constexpr size_t kLong = 2048;

}  // namespace

AIFLAME_OWN void* memcpy(void* to, const void* from, size_t bytes) noexcept {
  auto* out = static_cast<char*>(to);
  auto* in = static_cast<const char*>(from);
  if (bytes >= kLong) {
    asm volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(bytes) : : "memory");
  } else if (bytes >= sizeof(Block)) {
    size_t last = bytes - sizeof(Block);
    for (size_t at = 0; at < last; at += sizeof(Block)) move_block(out + at, in + at);
    move_block(out + last, in + last);
  } else if (bytes >= sizeof(Word)) {
    move_word(out, in);
    move_word(out + bytes - sizeof(Word), in + bytes - sizeof(Word));
  } else {
    for (size_t at = 0; at < bytes; at++) out[at] = in[at];
  }
  return to;
}

AIFLAME_OWN void* memmove(void* to, const void* from, size_t bytes) noexcept {
  auto* out = static_cast<char*>(to);
  auto* in = static_cast<const char*>(from);
  if (out <= in)
    for (size_t at = 0; at < bytes; at++) out[at] = in[at];
  else
    for (size_t at = bytes; at-- > 0;) out[at] = in[at];
  return to;
}

AIFLAME_OWN void* memset(void* memory, int value, size_t bytes) noexcept {
  auto* out = static_cast<char*>(memory);
  size_t left = bytes;
  if (bytes >= kLong)
    asm volatile("rep stosb" : "+D"(out), "+c"(left) : "a"(value) : "memory");
  else
    for (size_t at = 0; at < bytes; at++) out[at] = static_cast<char>(value);
  return memory;
}

AIFLAME_OWN int memcmp(const void* left, const void* right, size_t bytes) noexcept {
  auto* a = static_cast<const unsigned char*>(left);
  auto* b = static_cast<const unsigned char*>(right);
  size_t at = 0;
  while (at + sizeof(Word) <= bytes && *reinterpret_cast<const Word*>(a + at) == *reinterpret_cast<const Word*>(b + at)) at += sizeof(Word);
  for (; at < bytes; at++)
    if (a[at] != b[at]) return a[at] - b[at];
  return 0;
}

AIFLAME_OWN void* memchr(const void* memory, int value, size_t bytes) noexcept {
  auto* in = static_cast<const unsigned char*>(memory);
  for (size_t at = 0; at < bytes; at++)
    if (in[at] == static_cast<unsigned char>(value)) return const_cast<unsigned char*>(in + at);
  return nullptr;
}

AIFLAME_OWN size_t strnlen(const char* text, size_t most) noexcept {
  size_t length = 0;
  while (length < most && text[length]) length++;
  return length;
}

AIFLAME_OWN size_t strlen(const char* text) noexcept { return strnlen(text, ~size_t{0}); }

AIFLAME_OWN int strncmp(const char* left, const char* right, size_t most) noexcept {
  for (size_t at = 0; at < most; at++) {
    auto a = static_cast<unsigned char>(left[at]), b = static_cast<unsigned char>(right[at]);
    if (a != b) return a - b;
    if (!a) break;
  }
  return 0;
}

AIFLAME_OWN int strcmp(const char* left, const char* right) noexcept { return strncmp(left, right, ~size_t{0}); }
