// How a document is read on behind a place where it is damaged.
//
// Before its array has been found, the array's key is looked for; later, and where not even a first member could be read, an event: an object
// that is no member's value, can be read as a whole and has a key that is wanted.
#include "trace_reader/document.hpp"

namespace aiflame::trace_reader {
namespace {

bool is_space(char byte) noexcept { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

}  // namespace

// The bytes up to `to` are lost.
void Document::drop(const char* to) noexcept {
  damage_.bytes += static_cast<uint64_t>(to - here());
  for (const char* at = to; at > here(); at--) {
    if (is_space(at[-1])) continue;
    before_ = at[-1];
    break;
  }
  pass(to);
}

// The value here cannot be read; the search for the next one begins at `from`.
Document::Step Document::damaged(const char* from) noexcept {
  damage_.places++;
  seek_key_ = !damage_.found_array && array_key_.size() > 0;
  seek_event_ = !seek_key_ || members_.count() == 0 || state_ == State::END;
  drop(from);
  before_ = 0;
  return go_on(State::SEARCH);
}

// The byte here should not be there. A value behind a colon is not taken for a member's here.
Document::Step Document::misplaced() noexcept { return damaged(here() + (*here() == ':')); }

// The document ends too early. Within the cut value there may be events, if its beginning was damaged.
Document::Step Document::cut() noexcept {
  damage_.cut = last_;
  return damaged(left() ? here() + 1 : here());
}

Document::Step Document::search() noexcept {
  if (too_soon()) return Step::WAIT;
  for (const char* from = here();;) {
    const void* met = seek_event_ && from < end() ? memchr(from, '{', static_cast<size_t>(end() - from)) : nullptr;
    const char* brace = static_cast<const char*>(met);
    if (const char* key = seek_key_ ? find_key(from, brace ? brace : end()) : nullptr) return found_key(key);
    if (brace) {
      if (may_begin(brace)) return try_event(brace);
      from = brace + 1;
      continue;
    }
    // The key may have begun.
    size_t held = seek_key_ && !last_ ? array_key_.size() - 1 : 0;
    if (left() > held) drop(end() - held);
    return Step::WAIT;
  }
}

// The array's key, as a whole between two places.
const char* Document::find_key(const char* from, const char* to) const noexcept {
  size_t size = array_key_.size();
  while (static_cast<size_t>(to - from) >= size) {
    const void* met = memchr(from, array_key_[0], static_cast<size_t>(to - from) - size + 1);
    if (!met) return nullptr;
    from = static_cast<const char*>(met);
    if (memcmp(from, array_key_.data(), size) == 0) return from;
    from++;
  }
  return nullptr;
}

// The array's opening bracket most likely follows.
Document::Step Document::found_key(const char* at) noexcept {
  const char* behind = at + array_key_.size();
  const char* next = Scanner::skip_space(behind + (*behind == '"'));
  if (*next == ':') next = Scanner::skip_space(next + 1);
  drop(at);
  if (next >= end() && !last_) return Step::WAIT;
  if (*next == '[' && next < end()) return enter_array(next + 1);
  damage_.found_array = true;
  seek_key_ = false;
  seek_event_ = true;
  drop(behind);
  return Step::ON;
}

// Whether an event can begin at a brace; true as well where more bytes are needed.
bool Document::may_begin(const char* brace) const noexcept {
  char before = before_;
  for (const char* at = brace; at > here(); at--) {
    if (is_space(at[-1])) continue;
    before = at[-1];
    break;
  }
  if (before == ':') return false;
  const char* name = Scanner::skip_space(brace + 1);
  return *name == '"' || (name >= end() && !last_);
}

Document::Step Document::try_event(const char* brace) noexcept {
  drop(brace);
  Outcome outcome;
  const char* behind = event_.read(here(), end(), &outcome);
  if (event_.out_of_memory()) return fail(Failure::OUT_OF_MEMORY);
  size_t size = behind ? static_cast<size_t>(behind - here()) : left();
  if (size <= kLongestEvent) {
    if (outcome == Outcome::CUT && !last_) return wait_for_more();
    if (outcome == Outcome::DONE && event_.has_wanted()) {
      damage_.found_array = comma_ = true;
      return commit(behind);
    }
  }
  drop(here() + 1);
  return Step::ON;
}

}  // namespace aiflame::trace_reader
