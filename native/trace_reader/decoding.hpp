// Strings of JSON as valid UTF-8.
#pragma once
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

// Appends a string, as it stands between its quotes, with its escapes decoded and invalid UTF-8 replaced. An escape that JSON does not have
// stays as it is. False: no memory.
bool append_decoded(Span string, Array<char>* to) noexcept;
// Appends a text as it is, with invalid UTF-8 replaced as Python's errors="replace" does.
bool append_valid(Span text, Array<char>* to) noexcept;
bool is_ascii(Span text) noexcept;

}  // namespace aiflame::trace_reader
