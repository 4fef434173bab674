// The columns of the rows that one block of bytes completes.
#pragma once
#include "trace_reader/event.hpp"
#include "trace_reader/numbers.hpp"
#include "trace_reader/texts.hpp"

namespace aiflame::trace_reader {

// exchange/readers/json_rows.py has the same numbers.
enum class Kind : uint32_t { INT, DECIMAL, TEXT, RAW };

struct Column {
  Kind kind;
  int digits;
  uint64_t unfit = 0;   // values that were there and could not be converted
  uint32_t newest = 0;  // the text that came last
  Array<int64_t> numbers;
  Array<uint32_t> texts;

  bool is_number() const noexcept { return kind == Kind::INT || kind == Kind::DECIMAL; }
  const void* data() const noexcept { return is_number() ? static_cast<const void*>(numbers.data()) : texts.data(); }
};

// Appends the values of events.
class Converter {
 public:
  explicit Converter(Texts* texts) noexcept : texts_(texts) {}
  // False: no memory.
  bool append(Column* column, const Value& value) noexcept;

 private:
  int64_t number(Column* column, const Value& value, bool* memory) noexcept;
  uint32_t text(Column* column, const Value& value, bool* memory) noexcept;
  uint32_t raw(Column* column, const Value& value, bool* memory) noexcept;
  uint32_t known(Column* column, Span text, bool* memory) noexcept;

  Texts* texts_;
  Array<char> decoded_;
};

}  // namespace aiflame::trace_reader
