// Numbers in decimal as fixed-point integers, never through a double.
#pragma once
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

// A value that is missing, or does not fit.
constexpr int64_t kNone = INT64_MIN;
constexpr int kMostDigits = 18;

enum class Rest : uint8_t { ROUNDED, NONE_ALLOWED };

// `text` times 10^digits; a half is rounded to the even neighbour. False: it is no number of JSON (zeros may lead), it is too large, or digits
// other than 0 are left where none are allowed.
bool fixed_point(Span text, int digits, Rest rest, int64_t* value) noexcept;

}  // namespace aiflame::trace_reader
