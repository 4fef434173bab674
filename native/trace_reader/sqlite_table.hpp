// Columns of an SQLite table, read from the pages of its file: https://www.sqlite.org/fileformat2.html
//
// Reads the plain case alone, and gives up on everything else: the caller then asks SQLite itself.
#pragma once
#include "trace_reader/texts.hpp"

namespace aiflame::trace_reader {

constexpr int32_t kRowNumber = -1;

enum class Values : uint8_t {
  WHOLE,    // NULL is kNone
  DECIMAL,  // the bits of a double; NULL is infinite
  TEXT,     // the number of the text; NULL is 0
};

// A column that is wanted: its place in the table's records, or kRowNumber; where its values go. Most columns of a report have the same value in all
// rows: `to` is written only once one differs from the first (`varies`), so that memory is taken for those that do.
struct WantedColumn {
  int32_t place;
  Values values;
  uint8_t varies;
  int64_t first;
  int64_t* to;
};

// Reads the rows of the table whose tree begins at page `root` of an open file, in the order of their numbers. `rows`: how many there are. Adds to
// `texts`. False: the table is not as expected, or has a value of another kind; then the values are not to be used.
bool sqlite_columns(int file, uint32_t root, WantedColumn* wanted, uint32_t count, int64_t rows, Texts* texts) noexcept;

}  // namespace aiflame::trace_reader
