// A table file alone: rows of several sizes across chunks that double, with and without room mapped ahead; and memory that the
// program protects or unmaps, which comes back with its content.
#include "check.hpp"
#include "recording.hpp"
#include "spool/table_file.hpp"

#include <sys/mman.h>

using namespace aiflame;
using sanitized::check;

namespace {

constexpr unsigned kThreads = 4;

// Each word of a row is its mark. A row that reaches into another one, or beyond its chunk, is found.
bool holds(const void* row, uint32_t bytes, uint64_t mark) {
  for (uint32_t at = 0; at < bytes; at += 8)
    if (memcmp(static_cast<const char*>(row) + at, &mark, 8) != 0) return false;
  return true;
}

struct Rows {
  uint32_t bytes, units, count;  // units of so many bytes; a row has several
  bool ahead;
};

void append_rows(spool::TableFile& table, const Rows& rows, unsigned thread, std::vector<uint64_t>& indices) {
  for (uint32_t number = 0; number < rows.count; number++) {
    control::Use use;
    uint64_t index, mark = uint64_t{thread} << 32 | number;
    void* row = table.reserve(rows.units, &index);
    if (!check(row && table.at(index) == row && table.covers(reinterpret_cast<uint64_t>(row)))) return;
    for (uint32_t at = 0; at < rows.units * rows.bytes; at += 8) memcpy(static_cast<char*>(row) + at, &mark, 8);
    indices.push_back(index);
  }
}

void check_rows(const spool::TableFile& table, const Rows& rows, const std::vector<std::vector<uint64_t>>& indices) {
  for (unsigned thread = 0; thread < kThreads; thread++)
    for (uint32_t number = 0; number < indices[thread].size(); number++) {
      const void* row = table.at(indices[thread][number]);
      check(row && holds(row, rows.units * rows.bytes, uint64_t{thread} << 32 | number));
    }
}

void rows_keep_apart(const Rows& rows) {
  spool::TableFile table;
  char name[32];
  snprintf(name, sizeof name, "rows-%u-%u-%d", rows.bytes, rows.units, rows.ahead);
  table.open("", name, 99, rows.bytes);
  if (rows.ahead) table.map_ahead(1 << 20);
  std::vector<std::vector<uint64_t>> indices(kThreads);
  sanitized::in_threads(kThreads, [&](unsigned thread) { append_rows(table, rows, thread, indices[thread]); });
  check_rows(table, rows, indices);
  auto* first = static_cast<char*>(table.first());
  auto page = reinterpret_cast<uint64_t>(first);
  check(table.overlaps(page, 4096) && !table.overlaps(0x1000, 4096));
  mprotect(first, 4096, PROT_NONE);
  check(table.map_again(page));
  check_rows(table, rows, indices);
  munmap(first - schema::kHeaderBytes, schema::kHeaderBytes + 4096);
  check(table.map_again(page));
  check_rows(table, rows, indices);
  table.abandon();
  check(!table.at(indices[0][0]) && !table.covers(page));
}

}  // namespace

int main() {
  sanitized::Recording recording;
  for (bool ahead : {false, true}) {
    rows_keep_apart({.bytes = 8, .units = 1, .count = 2000, .ahead = ahead});
    rows_keep_apart({.bytes = 48, .units = 1, .count = 2500, .ahead = ahead});
    rows_keep_apart({.bytes = 8, .units = 77, .count = 800, .ahead = ahead});
    rows_keep_apart({.bytes = 4096, .units = 3, .count = 200, .ahead = ahead});
  }
  // More than a chunk ever holds.
  spool::TableFile table;
  uint64_t index;
  table.open("", "large", 99, 8);
  check(!table.reserve(3 << 20, &index));
  return sanitized::status();
}
