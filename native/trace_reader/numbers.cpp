#include "trace_reader/numbers.hpp"

namespace aiflame::trace_reader {
namespace {

// The parts of a number.
struct Parts {
  bool negative;
  Span whole, fraction;
  int64_t exponent;
};

bool is_digit(char byte) noexcept { return byte >= '0' && byte <= '9'; }

Span digits_at(const char* at, const char* end) noexcept {
  const char* begin = at;
  while (at < end && is_digit(*at)) at++;
  return {begin, static_cast<size_t>(at - begin)};
}

bool take_apart(Span text, Parts* parts) noexcept {
  const char *at = text.data, *end = at + text.size;
  parts->negative = at < end && *at == '-';
  at += parts->negative;
  parts->whole = digits_at(at, end);
  if (!parts->whole.size) return false;
  at += parts->whole.size;
  parts->fraction = {at, 0};
  if (at < end && *at == '.') {
    parts->fraction = digits_at(at + 1, end);
    if (!parts->fraction.size) return false;
    at += 1 + parts->fraction.size;
  }
  parts->exponent = 0;
  if (at < end && (*at == 'e' || *at == 'E')) {
    at++;
    bool below = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    Span power = digits_at(at, end);
    if (!power.size) return false;
    for (size_t place = 0; place < power.size; place++)
      if (parts->exponent < 1'000'000'000'000) parts->exponent = parts->exponent * 10 + (power.data[place] - '0');
    if (below) parts->exponent = -parts->exponent;
    at += power.size;
  }
  return at == end;
}

// The digits of a number, one after the other, without its point.
struct Digits {
  Span whole, fraction;

  size_t count() const noexcept { return whole.size + fraction.size; }
  unsigned operator[](size_t at) const noexcept {
    return static_cast<unsigned>((at < whole.size ? whole.data[at] : fraction.data[at - whole.size]) - '0');
  }
};

// Any number; slowly.
bool general(const Parts& parts, int digits, Rest rest, int64_t* value) noexcept {
  Digits of{parts.whole, parts.fraction};
  size_t count = of.count(), first = 0;
  while (first < count && of[first] == 0) first++;
  if (first == count) {
    *value = 0;
    return true;
  }
  // The result has so many digits; fewer than none: it is below a tenth.
  int64_t long_as = static_cast<int64_t>(parts.whole.size) - static_cast<int64_t>(first) + parts.exponent + digits;
  if (long_as > 19) return false;
  size_t kept = long_as > 0 ? static_cast<size_t>(long_as) : 0;
  unsigned __int128 sum = 0;
  for (size_t at = 0; at < kept; at++) sum = sum * 10 + (first + at < count ? of[first + at] : 0);
  size_t next = first + kept;
  bool more = false;
  for (size_t at = next; at < count && !more; at++) more = of[at] != 0;
  if (more && rest == Rest::NONE_ALLOWED) return false;
  if (more && long_as >= 0) {
    bool behind = false;
    for (size_t at = next + 1; at < count && !behind; at++) behind = of[at] != 0;
    sum += of[next] > 5 || (of[next] == 5 && (behind || (sum & 1)));
  }
  if (sum > static_cast<unsigned __int128>(INT64_MAX)) return false;
  *value = parts.negative ? -static_cast<int64_t>(sum) : static_cast<int64_t>(sum);
  return true;
}

}  // namespace

bool fixed_point(Span text, int digits, Rest rest, int64_t* value) noexcept {
  // Nearly all: 19 digits at most, none too many behind the point, no exponent.
  if (text.size > 0 && text.size <= 21) {
    const char *at = text.data, *end = at + text.size;
    bool negative = *at == '-';
    at += negative;
    const char* begin = at;
    uint64_t sum = 0;
    while (at < end && is_digit(*at)) sum = sum * 10 + static_cast<unsigned>(*at++ - '0');
    ptrdiff_t count = at - begin;
    int left = digits;
    if (count > 0 && at + 1 < end && *at == '.')
      for (at++; at < end && left > 0 && is_digit(*at); left--) sum = sum * 10 + static_cast<unsigned>(*at++ - '0');
    if (at == end && count > 0 && count + digits <= 19) {
      for (; left > 0; left--) sum *= 10;
      if (sum > static_cast<uint64_t>(INT64_MAX)) return false;
      *value = negative ? -static_cast<int64_t>(sum) : static_cast<int64_t>(sum);
      return true;
    }
  }
  Parts parts;
  return take_apart(text, &parts) && general(parts, digits, rest, value);
}

}  // namespace aiflame::trace_reader
