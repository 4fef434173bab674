#include "trace_reader/scanner.hpp"

#if defined(__SSE2__) && !defined(AIFLAME_SCALAR)
#include <emmintrin.h>
#endif

namespace aiflame::trace_reader {

#if defined(__SSE2__) && !defined(AIFLAME_SCALAR)

const char* Scanner::string_end(const char* at, bool* plain) const noexcept {
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
  unsigned high = 0;
  bool escaped = false;
  while (at < end_) {
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    unsigned above = static_cast<unsigned>(_mm_movemask_epi8(bytes));
    unsigned met = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash))));
    if (!met) {
      high |= above;
      at += 16;
      continue;
    }
    int first = __builtin_ctz(met);
    high |= above & ((1u << first) - 1);
    at += first;
    if (at >= end_) return nullptr;
    if (*at == '"') {
      *plain = !high && !escaped;
      return at;
    }
    escaped = true;
    at += 2;
  }
  return nullptr;
}

#else

const char* Scanner::string_end(const char* at, bool* plain) const noexcept {
  bool simple = true;
  for (; at < end_; at++) {
    if (*at == '"') {
      *plain = simple;
      return at;
    }
    if (*at == '\\') {
      simple = false;
      at++;
    } else if (static_cast<unsigned char>(*at) > 0x7f) {
      simple = false;
    }
  }
  return nullptr;
}

#endif

const char* Scanner::word_end(const char* at, const char* word, size_t size) noexcept {
  for (size_t done = 0; done < size; done++)
    if (at[done] != word[done]) return wrong(at + done);
  return at + size;
}

const char* Scanner::object_end(const char* at, int depth) noexcept {
  at = skip_space(at + 1);
  if (*at == '}') return at + 1;
  for (;;) {
    if (*at != '"') return wrong(at);
    bool plain;
    at = string_end(at + 1, &plain);
    if (!at) return cut();
    at = skip_space(at + 1);
    if (*at != ':') return wrong(at);
    Value value;
    at = value_end(skip_space(at + 1), depth, &value);
    if (!at) return nullptr;
    at = skip_space(at);
    if (*at == '}') return at + 1;
    if (*at != ',') return wrong(at);
    at = skip_space(at + 1);
  }
}

const char* Scanner::array_end(const char* at, int depth) noexcept {
  at = skip_space(at + 1);
  if (*at == ']') return at + 1;
  for (;;) {
    Value value;
    at = value_end(at, depth, &value);
    if (!at) return nullptr;
    at = skip_space(at);
    if (*at == ']') return at + 1;
    if (*at != ',') return wrong(at);
    at = skip_space(at + 1);
  }
}

const char* Scanner::value_end(const char* at, int depth, Value* value) noexcept {
  const char *begin = at, *end = nullptr;
  switch (*at) {
    case '"':
      end = string_end(at + 1, &value->plain);
      if (!end) return cut();
      value->sort = Sort::STRING;
      value->text = {begin + 1, static_cast<size_t>(end - begin - 1)};
      return end + 1;
    case '{':
    case '[':
      if (depth <= 0) {
        why_ = Outcome::DAMAGED;
        return nullptr;
      }
      value->sort = *at == '{' ? Sort::OBJECT : Sort::ARRAY;
      end = *at == '{' ? object_end(at, depth - 1) : array_end(at, depth - 1);
      break;
    case 't':
      value->sort = Sort::TRUE;
      end = word_end(at, "true", 4);
      break;
    case 'f':
      value->sort = Sort::FALSE;
      end = word_end(at, "false", 5);
      break;
    case 'n':
      value->sort = Sort::EMPTY;
      end = word_end(at, "null", 4);
      break;
    case 'N':
      value->sort = Sort::NOT_A_NUMBER;
      end = word_end(at, "NaN", 3);
      break;
    case 'I':
      value->sort = Sort::NOT_A_NUMBER;
      end = word_end(at, "Infinity", 8);
      break;
    case '-':
      if (at[1] == 'I') {
        value->sort = Sort::NOT_A_NUMBER;
        end = word_end(at, "-Infinity", 9);
        break;
      }
      [[fallthrough]];
    default:
      if (!(*at == '-' || (*at >= '0' && *at <= '9'))) return wrong(at);
      value->sort = Sort::NUMBER;
      end = at + 1;
      while (in_number(*end)) end++;
      if (end >= end_) return wrong(end);  // more digits may follow
      break;
  }
  if (!end) return nullptr;
  value->text = {begin, static_cast<size_t>(end - begin)};
  return end;
}

}  // namespace aiflame::trace_reader
