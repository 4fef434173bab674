#include "trace_reader/document.hpp"
#include "trace_reader/decoding.hpp"

#include <new>

namespace aiflame::trace_reader {

Document::~Document() noexcept {
  for (uint32_t at = 0; at < column_count_; at++) columns_[at].~Column();
  free(columns_);
}

Failure Document::begin(Span array_key, const Wanted* wanted, uint32_t count) noexcept {
  failure_ = Failure::OUT_OF_MEMORY;
  columns_ = static_cast<Column*>(malloc((count + 1) * sizeof(Column)));
  if (!columns_ || !next_column_.resize(count) || !keys_.begin(seed_) || !array_key_.append(array_key.data, array_key.size)) return failure_;
  for (uint32_t at = 0; at < count; at++) {
    const Wanted& each = wanted[at];
    new (&columns_[at]) Column{.kind = each.kind, .digits = each.kind == Kind::DECIMAL ? each.digits : 0};
    column_count_ = at + 1;
    uint32_t key = keys_.wanted(0, {each.first, each.first_size}, each.second ? kNoColumn : at);
    if (key && each.second) key = keys_.wanted(key, {each.second, each.second_size}, at);
    if (!key) return failure_;
    next_column_[at] = kNoColumn;
    if (uint32_t other = keys_[key].column; other != at) {  // several columns want one key
      while (next_column_[other] != kNoColumn) other = next_column_[other];
      next_column_[other] = at;
    }
  }
  if (!event_.begin(&keys_, next_column_.data(), count)) return failure_;
  return failure_ = Failure::NONE;
}

Failure Document::feed(Span block) noexcept {
  drop_rows();
  if (failure_ != Failure::NONE) return failure_;
  size_t kept = left();
  if (at_ && kept) memmove(buffer_.data(), here(), kept);
  passed_ += at_;
  at_ = 0;
  if (block.size > SIZE_MAX / 4 || !buffer_.resize(kept + block.size + kPadding)) return failure_ = Failure::OUT_OF_MEMORY;
  if (block.size) memcpy(buffer_.data() + kept, block.data, block.size);
  end_ = kept + block.size;
  memset(buffer_.data() + end_, 0, kPadding);
  return run();
}

Failure Document::finish() noexcept {
  last_ = true;
  return feed({});
}

void Document::drop_rows() noexcept {
  rows_ = 0;
  for (uint32_t at = 0; at < column_count_; at++) {
    columns_[at].numbers.clear();
    columns_[at].texts.clear();
  }
}

Failure Document::run() noexcept {
  while (failure_ == Failure::NONE && step() == Step::ON) {
  }
  return failure_;
}

Document::Step Document::step() noexcept {
  if (state_ == State::SKIP) return skip();
  if (state_ == State::SEARCH) return search();
  if (const char* to = Scanner::skip_space(here()); to != here()) pass(to);
  switch (state_) {
    case State::START:
      return start();
    case State::MEMBER:
      return member();
    case State::ARRAY:
      return array();
    case State::BEHIND:
      return behind_array();
    default:
      return left() ? misplaced() : Step::WAIT;
  }
}

Document::Step Document::start() noexcept {
  static constexpr Span kByteOrderMark{"\xEF\xBB\xBF", 3};
  if (passed_ + at_ == 0 && left() && *here() == kByteOrderMark.data[0]) {
    if (left() < 3 && !last_) return Step::WAIT;
    if (Span{here(), left() < 3 ? 0 : size_t{3}} == kByteOrderMark) return pass(here() + 3), Step::ON;
  }
  if (!left()) return Step::WAIT;
  bare_ = *here() == '[';
  if (bare_) return enter_array(here() + 1);
  if (*here() != '{') return misplaced();
  pass(here() + 1);
  return go_on(State::MEMBER);
}

Document::Step Document::member() noexcept {
  if (!left()) return last_ ? cut() : Step::WAIT;
  if (*here() == ',' || *here() == '}') {
    bool ends = *here() == '}';
    pass(here() + 1);
    return go_on(ends ? State::END : State::MEMBER);
  }
  if (*here() != '"') return misplaced();
  if (too_soon()) return Step::WAIT;
  Scanner scanner(end());
  bool plain;
  const char* close = scanner.string_end(here() + 1, &plain);
  const char* colon = close ? Scanner::skip_space(close + 1) : end();
  if (colon >= end()) return last_ || left() > kMostMemberBytes ? cut() : wait_for_more();
  if (*colon != ':') return damaged(here() + 1);
  name_.clear();
  if (!append_decoded({here() + 1, static_cast<size_t>(close - here() - 1)}, &name_)) return fail(Failure::OUT_OF_MEMORY);
  return member_value(Scanner::skip_space(colon + 1));
}

Document::Step Document::member_value(const char* begin) noexcept {
  Span name{name_.data(), name_.size()};
  if (name == Span{array_key_.data(), array_key_.size()} && begin < end()) {
    if (*begin == '[') return enter_array(begin + 1);
    damage_.found_array = true;
    pass(begin);
    return misplaced();
  }
  Scanner scanner(end());
  Value value;
  const char* behind = scanner.value_end(begin, kMostDepth, &value);
  if (behind) {
    if (!members_.keep(name, {begin, static_cast<size_t>(behind - begin)})) return fail(Failure::OUT_OF_MEMORY);
    pass(behind);
    return Step::ON;
  }
  if (scanner.why() == Outcome::DAMAGED) return damaged(here() + 1);
  if (left() > kMostMemberBytes) {
    if (!members_.leave_out(name)) return fail(Failure::OUT_OF_MEMORY);
    pass(begin);
    skipper_.begin();
    return go_on(State::SKIP);
  }
  return last_ ? cut() : wait_for_more();
}

Document::Step Document::skip() noexcept {
  Outcome outcome;
  const char* behind = skipper_.skip(here(), end(), &outcome);
  pass(behind);
  if (outcome == Outcome::DAMAGED) return misplaced();
  if (outcome == Outcome::CUT) return last_ ? cut() : Step::WAIT;
  return go_on(State::MEMBER);
}

Document::Step Document::enter_array(const char* behind) noexcept {
  pass(behind);
  damage_.found_array = comma_ = true;
  return go_on(State::ARRAY);
}

Document::Step Document::array() noexcept {
  if (!left()) return last_ && !bare_ ? cut() : Step::WAIT;
  switch (*here()) {
    case '{':
      return event();
    case ',':
      comma_ = true;
      pass(here() + 1);
      return Step::ON;
    case ']':
      pass(here() + 1);
      return go_on(State::BEHIND);
    default:
      return misplaced();
  }
}

Document::Step Document::event() noexcept {
  if (too_soon()) return Step::WAIT;
  Outcome outcome;
  const char* behind = event_.read(here(), end(), &outcome);
  if (event_.out_of_memory()) return fail(Failure::OUT_OF_MEMORY);
  size_t size = behind ? static_cast<size_t>(behind - here()) : left();
  if (outcome != Outcome::DAMAGED && size > kLongestEvent) return fail(Failure::LONG_EVENT);
  if (behind) return commit(behind);
  if (outcome == Outcome::DAMAGED) return damaged(here() + 1);
  return last_ ? cut() : wait_for_more();
}

Document::Step Document::commit(const char* behind) noexcept {
  if (!comma_) damage_.places++;  // something that stood between two events is missing
  for (uint32_t at = 0; at < column_count_; at++)
    if (!converter_.append(&columns_[at], event_.value(at))) return fail(Failure::OUT_OF_MEMORY);
  event_.count_unused();
  rows_++;
  comma_ = false;
  pass(behind);
  return go_on(State::ARRAY);
}

Document::Step Document::behind_array() noexcept {
  if (!left()) return last_ && !bare_ ? cut() : Step::WAIT;
  if (bare_ || (*here() != ',' && *here() != '}')) return misplaced();
  return go_on(State::MEMBER);
}

}  // namespace aiflame::trace_reader
