// The other members of a document, beside its array of events: the name of each and its value as it stands.
#pragma once
#include "trace_reader/scanner.hpp"

namespace aiflame::trace_reader {

constexpr size_t kMostMemberBytes = 16 << 20;  // of all values together
constexpr size_t kMostMembers = 10'000;

struct Member {
  uint64_t name_begin, name_size, value_begin, value_size;
  bool kept;  // else its value was too large
};

class Members {
 public:
  // False: no memory.
  bool keep(Span name, Span value) noexcept;
  bool leave_out(Span name) noexcept { return add(name, {}, false); }

  size_t count() const noexcept { return members_.size(); }
  bool kept(size_t at) const noexcept { return members_[at].kept; }
  Span name(size_t at) const noexcept { return {bytes_.data() + members_[at].name_begin, static_cast<size_t>(members_[at].name_size)}; }
  Span value(size_t at) const noexcept { return {bytes_.data() + members_[at].value_begin, static_cast<size_t>(members_[at].value_size)}; }

 private:
  bool add(Span name, Span value, bool kept) noexcept;

  Array<Member> members_;
  Array<char> bytes_;
  size_t kept_bytes_ = 0;
};

// Finds the end of a value that is too large to be in memory as a whole, from piece to piece: by its quotes and brackets.
class Skipper {
 public:
  void begin() noexcept { *this = Skipper(); }
  // From `at` on; returns the first byte behind the value, or `end` and CUT, or a bracket that does not fit and DAMAGED.
  const char* skip(const char* at, const char* end, Outcome* outcome) noexcept;

 private:
  uint64_t braces_ = 0;  // a bit for each open bracket, the innermost lowest: it is a brace
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace aiflame::trace_reader
