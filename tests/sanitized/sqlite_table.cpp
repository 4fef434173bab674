// The reader of columns from the pages of an SQLite file: on a file that is whole, with bytes changed, and cut.
#include "trace_reader/sqlite_table.hpp"
#include "check.hpp"
#include "trace_reader/numbers.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

using namespace aiflame::trace_reader;
using sanitized::check;

namespace {

constexpr size_t kPage = 512;
constexpr int64_t kRows = 60, kRowsOfPage = 20;

void put(std::string* page, size_t at, uint64_t value, size_t size) {
  for (size_t byte = 0; byte < size; byte++) (*page)[at + byte] = static_cast<char>(value >> 8 * (size - 1 - byte));
}

constexpr size_t kLong = 700, kInItsPage = 201;

// The last row's text does not fit in its page: page 6 has the rest.
std::string text_of(int64_t row) { return row < kRows ? "ab" : std::string(kLong, 'x'); }

// Row n of three columns: n * 1000 in four bytes, a text, NULL.
std::string leaf(int64_t first) {
  std::string page(kPage, '\0');
  size_t end = kPage;
  page[0] = 0x0d;
  put(&page, 3, kRowsOfPage, 2);
  for (int64_t row = 0; row < kRowsOfPage; row++) {
    bool is_long = first + row == kRows;
    std::string head = is_long ? std::string{'\x85', 0x45} : std::string{10};
    std::string record = is_long ? std::string{5, 4, '\x8b', 5, 0} : std::string{4, 4, 17, 0};
    size_t number = record.size();
    record.append(4, '\0');
    put(&record, number, static_cast<uint64_t>((first + row) * 1000), 4);
    record += text_of(first + row);
    std::string cell = head + static_cast<char>(first + row) + record.substr(0, is_long ? kInItsPage : record.size());
    if (is_long) cell += std::string{0, 0, 0, 6};
    end -= cell.size();
    page.replace(end, cell.size(), cell);
    put(&page, 8 + 2 * static_cast<size_t>(row), end, 2);
  }
  return page;
}

// A page for the schema, the root, three leaves, the rest of the last row.
std::string file() {
  std::string first(kPage, '\0'), root(kPage, '\0');
  put(&first, 16, kPage, 2);
  first[59] = 1;  // UTF-8
  root[0] = 0x05;
  put(&root, 3, 2, 2);
  put(&root, 8, 5, 4);
  for (size_t cell = 0; cell < 2; cell++) {
    size_t place = kPage - 5 * (cell + 1);
    put(&root, place, 3 + cell, 4);
    root[place + 4] = static_cast<char>(kRowsOfPage * static_cast<int64_t>(cell + 1));
    put(&root, 12 + 2 * cell, place, 2);
  }
  return first + root + leaf(1) + leaf(1 + kRowsOfPage) + leaf(1 + 2 * kRowsOfPage) + std::string(4, '\0') + std::string(kPage - 4, 'x');
}

struct Columns {
  std::vector<int64_t> none, rows, numbers, text;
};

bool read(const std::string& content, uint32_t root, Columns* to, Texts* texts) {
  int file = memfd_create("table", MFD_CLOEXEC);
  check(file >= 0 && write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  std::vector<int64_t>* columns[] = {&to->none, &to->rows, &to->numbers, &to->text};
  for (auto* column : columns) column->assign(kRows, 7);
  WantedColumn wanted[] = {{2, Values::WHOLE, 0, 0, to->none.data()},
                           {kRowNumber, Values::DECIMAL, 0, 0, to->rows.data()},
                           {0, Values::WHOLE, 0, 0, to->numbers.data()},
                           {1, Values::TEXT, 0, 0, to->text.data()}};
  bool done = sqlite_columns(file, root, wanted, 4, kRows, texts);
  for (size_t at = 0; done && at < 4; at++)
    if (!wanted[at].varies) columns[at]->assign(kRows, wanted[at].first);
  close(file);
  return done;
}

bool read(const std::string& content, uint32_t root) {
  Columns columns;
  Texts texts(1 << 20, 1);
  return read(content, root, &columns, &texts);
}

}  // namespace

int main() {
  std::mt19937 random(1);
  Columns columns;
  Texts texts(1 << 20, 1);
  check(read(file(), 2, &columns, &texts) && texts.count() == 2);
  for (int64_t row = 0; row < kRows; row++) {
    auto at = static_cast<size_t>(row);
    double number = static_cast<double>(row + 1);
    check(columns.numbers[at] == (row + 1) * 1000 && memcmp(&columns.rows[at], &number, sizeof number) == 0 && columns.none[at] == kNone);
    Span text = texts.text(static_cast<uint32_t>(columns.text[at]));
    check(std::string(text.data, text.size) == text_of(row + 1));
  }
  for (uint32_t root : {0u, 1u, 3u, 6u, UINT32_MAX}) check(!read(file(), root));
  for (int round = 0; round < 30'000; round++) {
    std::string content = file();
    for (unsigned change = 1 + random() % (round % 3 ? 3 : 40); change; change--) content[random() % content.size()] = static_cast<char>(random());
    if (round % 5 == 0) content.resize(random() % content.size());
    read(content, 2);
  }
  return sanitized::status();
}
