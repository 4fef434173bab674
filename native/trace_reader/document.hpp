// A JSON document with an array of events, read from blocks of bytes that may be cut anywhere.
//
// The document is {…, "KEY": […], …}, or […] alone, which may lack its closing bracket. Where it is damaged, reading goes on at the next place
// where an event begins; the bytes between are counted.
#pragma once
#include "trace_reader/columns.hpp"
#include "trace_reader/members.hpp"

namespace aiflame::trace_reader {

constexpr size_t kLongestEvent = 64 << 20;

enum class Failure : int32_t { NONE, OUT_OF_MEMORY, LONG_EVENT };

// A column that is wanted: of a key of an event, or of a key of the object that the first one has (`second` is not null).
struct Wanted {
  const char* first;
  size_t first_size;
  const char* second;
  size_t second_size;
  Kind kind;
  int32_t digits;
};

struct Damage {
  uint64_t places, bytes;
  bool cut;          // the document ends before its end
  bool found_array;  // an array of events, or the remains of one
};

class Document {
 public:
  Document(uint64_t most_text_bytes, uint64_t seed) noexcept : texts_(most_text_bytes, seed), converter_(&texts_), seed_(seed) {}
  ~Document() noexcept;

  Failure begin(Span array_key, const Wanted* wanted, uint32_t count) noexcept;
  // The rows of the calls before are gone.
  Failure feed(Span block) noexcept;
  // Behind the last block.
  Failure finish() noexcept;

  size_t rows() const noexcept { return rows_; }
  const Column& column(uint32_t at) const noexcept { return columns_[at]; }
  const Keys& keys() const noexcept { return keys_; }
  const Texts& texts() const noexcept { return texts_; }
  const Members& members() const noexcept { return members_; }
  const Damage& damage() const noexcept { return damage_; }
  // Of the first byte that is still to be read.
  uint64_t place() const noexcept { return passed_ + at_; }

 private:
  // SKIP: within a value that is too large to keep. SEARCH: behind damage. BEHIND: the array has ended.
  enum class State : uint8_t { START, MEMBER, SKIP, ARRAY, SEARCH, BEHIND, END };
  enum class Step : uint8_t { ON, WAIT };

  void drop_rows() noexcept;
  Failure run() noexcept;
  Step step() noexcept;
  Step start() noexcept;
  Step member() noexcept;
  Step member_value(const char* begin) noexcept;
  Step skip() noexcept;
  Step array() noexcept;
  Step enter_array(const char* behind) noexcept;
  Step event() noexcept;
  Step behind_array() noexcept;
  Step behind_all() noexcept;
  Step commit(const char* behind) noexcept;

  // document_damage.cpp
  Step damaged(const char* from) noexcept;
  Step misplaced() noexcept;
  Step search() noexcept;
  const char* find_key(const char* from, const char* to) const noexcept;
  Step found_key(const char* at) noexcept;
  bool may_begin(const char* brace) const noexcept;
  Step try_event(const char* brace) noexcept;
  Step cut() noexcept;
  void drop(const char* to) noexcept;

  const char* here() const noexcept { return buffer_.data() + at_; }
  const char* end() const noexcept { return buffer_.data() + end_; }
  size_t left() const noexcept { return end_ - at_; }
  void pass(const char* to) noexcept { at_ = static_cast<size_t>(to - buffer_.data()), try_again_ = 0; }
  Step go_on(State state) noexcept { return state_ = state, Step::ON; }
  Step fail(Failure failure) noexcept { return failure_ = failure, Step::WAIT; }
  // The value here is cut. Trying it again at each of many small blocks would take long.
  Step wait_for_more() noexcept { return try_again_ = left() + left() / 4, Step::WAIT; }
  bool too_soon() const noexcept { return !last_ && left() > kRetried && left() < try_again_; }

  static constexpr size_t kRetried = 1 << 20;

  Keys keys_;
  Texts texts_;
  Members members_;
  Converter converter_;
  Event event_;
  Skipper skipper_;
  Array<char> buffer_, array_key_, name_;
  Array<uint32_t> next_column_;
  Column* columns_ = nullptr;
  uint32_t column_count_ = 0;
  size_t rows_ = 0;
  uint64_t seed_;

  State state_ = State::START;
  Failure failure_ = Failure::NONE;
  bool last_ = false;                           // no more bytes will come
  bool bare_ = false;                           // the document is an array
  bool comma_ = true;                           // the next value of the array may begin
  bool seek_key_ = false, seek_event_ = false;  // SEARCH: the things that are looked for
  char before_ = 0;                             // SEARCH: the last byte before here that is no white space
  size_t at_ = 0, end_ = 0;                     // of the buffer, behind whose end there is padding
  size_t try_again_ = 0;                        // the value here is cut, and is worth another try when there are so many bytes
  uint64_t passed_ = 0;                         // bytes that have left the buffer
  Damage damage_{};
};

}  // namespace aiflame::trace_reader
