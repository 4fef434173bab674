#include "trace_reader/columns.hpp"
#include "trace_reader/decoding.hpp"

namespace aiflame::trace_reader {

bool Converter::append(Column* column, const Value& value) noexcept {
  bool memory = true, none = value.sort == Sort::NONE || value.sort == Sort::EMPTY;
  if (column->is_number()) {
    int64_t converted = none ? kNone : number(column, value, &memory);
    return memory && column->numbers.push(converted);
  }
  uint32_t converted = none ? 0 : column->kind == Kind::TEXT ? text(column, value, &memory) : raw(column, value, &memory);
  return memory && column->texts.push(converted);
}

int64_t Converter::number(Column* column, const Value& value, bool* memory) noexcept {
  Span digits = value.text;
  int64_t converted = kNone;
  bool fits = value.sort == Sort::NUMBER || value.sort == Sort::STRING;
  if (value.sort == Sort::STRING && !value.plain) {
    decoded_.clear();
    if (!append_decoded(digits, &decoded_)) return *memory = false, kNone;
    digits = {decoded_.data(), decoded_.size()};
  }
  Rest rest = column->kind == Kind::INT ? Rest::NONE_ALLOWED : Rest::ROUNDED;
  if (fits && fixed_point(digits, column->digits, rest, &converted)) return converted;
  column->unfit++;
  return kNone;
}

uint32_t Converter::text(Column* column, const Value& value, bool* memory) noexcept {
  if (value.sort == Sort::OBJECT || value.sort == Sort::ARRAY) {
    column->unfit++;
    return 0;
  }
  if (value.plain) return known(column, value.text, memory);
  decoded_.clear();
  *memory = append_decoded(value.text, &decoded_);
  return *memory ? known(column, {decoded_.data(), decoded_.size()}, memory) : 0;
}

uint32_t Converter::raw(Column* column, const Value& value, bool* memory) noexcept {
  Span whole = value.text;
  if (value.sort == Sort::STRING) whole = {whole.data - 1, whole.size + 2};
  if (is_ascii(whole)) return known(column, whole, memory);
  decoded_.clear();
  *memory = append_valid(whole, &decoded_);
  return *memory ? known(column, {decoded_.data(), decoded_.size()}, memory) : 0;
}

uint32_t Converter::known(Column* column, Span text, bool* memory) noexcept {
  if (column->newest && texts_->text(column->newest) == text) return column->newest;
  *memory = texts_->id(text, &column->newest);
  return column->newest;
}

}  // namespace aiflame::trace_reader
