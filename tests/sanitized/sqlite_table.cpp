// The reader of numbers from the pages of an SQLite file: on a file that is whole, with bytes changed, and cut.
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

// Row n of three columns: n * 1000 in four bytes, the text "ab", NULL.
std::string leaf(int64_t first) {
  std::string page(kPage, '\0');
  size_t end = kPage;
  page[0] = 0x0d;
  put(&page, 3, kRowsOfPage, 2);
  for (int64_t row = 0; row < kRowsOfPage; row++) {
    std::string cell{10, static_cast<char>(first + row), 4, 4, 17, 0};
    cell.append(4, '\0');
    put(&cell, 6, static_cast<uint64_t>((first + row) * 1000), 4);
    cell += "ab";
    end -= cell.size();
    page.replace(end, cell.size(), cell);
    put(&page, 8 + 2 * static_cast<size_t>(row), end, 2);
  }
  return page;
}

// A page for the schema, the root, three leaves.
std::string file() {
  std::string first(kPage, '\0'), root(kPage, '\0');
  put(&first, 16, kPage, 2);
  root[0] = 0x05;
  put(&root, 3, 2, 2);
  put(&root, 8, 5, 4);
  for (size_t cell = 0; cell < 2; cell++) {
    size_t place = kPage - 5 * (cell + 1);
    put(&root, place, 3 + cell, 4);
    root[place + 4] = static_cast<char>(kRowsOfPage * static_cast<int64_t>(cell + 1));
    put(&root, 12 + 2 * cell, place, 2);
  }
  return first + root + leaf(1) + leaf(1 + kRowsOfPage) + leaf(1 + 2 * kRowsOfPage);
}

bool read(const std::string& content, uint32_t root, std::vector<int64_t>* numbers, std::vector<int64_t>* rows, std::vector<int64_t>* none) {
  int file = memfd_create("table", MFD_CLOEXEC);
  check(file >= 0 && write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  for (auto* column : {numbers, rows, none}) column->assign(kRows, 7);
  WantedNumbers wanted[] = {{2, 0, 0, none->data()}, {kRowNumber, 0, 0, rows->data()}, {0, 0, 0, numbers->data()}};
  bool done = sqlite_numbers(file, root, wanted, 3, kRows);
  for (size_t at = 0; done && at < 3; at++)
    if (!wanted[at].varies) (at == 0 ? none : at == 1 ? rows : numbers)->assign(kRows, wanted[at].first);
  close(file);
  return done;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::vector<int64_t> numbers, rows, none;
  check(read(file(), 2, &numbers, &rows, &none));
  for (int64_t row = 0; row < kRows; row++) {
    auto at = static_cast<size_t>(row);
    check(numbers[at] == (row + 1) * 1000 && rows[at] == row + 1 && none[at] == kNone);
  }
  for (uint32_t root : {0u, 1u, 3u, 6u, UINT32_MAX}) check(!read(file(), root, &numbers, &rows, &none));
  for (int round = 0; round < 30'000; round++) {
    std::string content = file();
    for (unsigned change = 1 + random() % (round % 3 ? 3 : 40); change; change--) content[random() % content.size()] = static_cast<char>(random());
    if (round % 5 == 0) content.resize(random() % content.size());
    read(content, 2, &numbers, &rows, &none);
  }
  return sanitized::status();
}
