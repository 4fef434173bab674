#include "trace_reader/members.hpp"

namespace aiflame::trace_reader {

bool Members::keep(Span name, Span value) noexcept {
  bool fits = value.size <= kMostMemberBytes - kept_bytes_;
  if (fits) kept_bytes_ += value.size;
  return add(name, fits ? value : Span{}, fits);
}

bool Members::add(Span name, Span value, bool kept) noexcept {
  if (members_.size() >= kMostMembers) return true;
  Member made{.name_begin = bytes_.size(), .name_size = name.size, .kept = kept};
  if (!bytes_.append(name.data, name.size)) return false;
  made.value_begin = bytes_.size();
  made.value_size = value.size;
  return bytes_.append(value.data, value.size) && members_.push(made);
}

const char* Skipper::skip(const char* at, const char* end, Outcome* outcome) noexcept {
  *outcome = Outcome::DONE;
  for (; at < end; at++) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (*at == '\\') {
        escaped_ = true;
      } else if (*at == '"') {
        in_string_ = false;
        if (depth_ == 0) return at + 1;
      }
      continue;
    }
    switch (*at) {
      case '"':
        in_string_ = true;
        break;
      case '{':
      case '[':
        if (depth_ == kMostDepth) return *outcome = Outcome::DAMAGED, at;
        braces_ = braces_ << 1 | (*at == '{');
        depth_++;
        break;
      case '}':
      case ']':
        if (depth_ == 0 || (braces_ & 1) != (*at == '}')) return *outcome = Outcome::DAMAGED, at;
        braces_ >>= 1;
        if (--depth_ == 0) return at + 1;
        break;
      default:
        break;
    }
  }
  *outcome = Outcome::CUT;
  return at;
}

}  // namespace aiflame::trace_reader
