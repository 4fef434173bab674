// One event: where the values that are wanted lie in its text. Nothing is changed until the whole event has been read.
#pragma once
#include "trace_reader/keys.hpp"

namespace aiflame::trace_reader {

class Event {
 public:
  // False: no memory. `next`: for each column the next one of the same key, or kNoColumn.
  bool begin(Keys* keys, const uint32_t* next, uint32_t columns) noexcept;

  // `at`: at the event's opening brace. Returns the first byte behind it; null: `outcome` says why.
  const char* read(const char* at, const char* end, Outcome* outcome) noexcept;
  // The value of each column, as the event that was read last has it.
  const Value& value(uint32_t column) const noexcept { return values_[column]; }
  bool has_wanted() const noexcept;
  // Counts the keys of this event that nobody wants.
  void count_unused() noexcept;
  bool out_of_memory() const noexcept { return out_of_memory_; }

 private:
  const char* read_object(const char* at, uint32_t parent, Scanner& scanner) noexcept;
  const char* read_value(const char* at, uint32_t key, bool inside, Scanner& scanner) noexcept;
  const char* no_memory() noexcept {
    out_of_memory_ = true;
    return nullptr;
  }

  Keys* keys_ = nullptr;
  const uint32_t* next_ = nullptr;
  Array<Value> values_;
  Array<uint32_t> unused_;
  bool out_of_memory_ = false;
};

}  // namespace aiflame::trace_reader
