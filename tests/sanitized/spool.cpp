// Threads append rows and texts of known content while another reads them in memory; then the files are read.
#include "check.hpp"
#include "recording.hpp"

using namespace aiflame;
using sanitized::check;

namespace {

constexpr unsigned kWriters = 6;
constexpr uint64_t kRows = 4000;

std::string name_of(uint64_t number) { return std::string(number % 40, static_cast<char>('a' + number % 26)) + std::to_string(number % 97); }

schema::CopyRecord row_of(uint32_t writer, uint64_t number) {
  return {.kind = writer, .correlation = number, .start_ns = number * 5, .end_ns = ~number >> 2, .bytes = number ^ uint64_t{writer} << 55};
}

bool is_whole(const schema::CopyRecord& row) { return row.commit == spool::check_word(&row, sizeof row); }

// Every other row in rows of the thread's own.
void write(unsigned writer, std::atomic<uint32_t>& newest) {
  static thread_local spool::Rows<schema::CopyRecord> rows;
  for (uint64_t number = 0; number < kRows; number++) {
    control::Use use;
    schema::CopyRecord row = row_of(writer, number);
    if (number % 2) {
      check(rows.append(row));
    } else {
      uint32_t id = spool::append(row, use);
      check(id != 0);
      newest.store(id, std::memory_order_release);
    }
    check(spool::text(name_of(number), use) != 0);
    if (number % 500 == 0) spool::note("note " + std::to_string(number));
  }
}

void read_while(const std::atomic<bool>& done, const std::atomic<uint32_t>& newest) {
  while (!done) {
    control::Use use;
    uint32_t id = newest.load(std::memory_order_acquire);
    const auto* row = spool::at<schema::CopyRecord>(id);
    if (id) check(row && is_whole(*row) && row->start_ns == row->correlation * 5);
    check(spool::covers(reinterpret_cast<uint64_t>(row)) == (row != nullptr));
  }
}

void check_file(const sanitized::Recording& recording) {
  std::string bytes = recording.file("copies");
  std::vector<std::vector<int>> met(kWriters, std::vector<int>(kRows));
  for (size_t at = schema::kHeaderBytes; at + sizeof(schema::CopyRecord) <= bytes.size(); at += sizeof(schema::CopyRecord)) {
    schema::CopyRecord row;
    memcpy(&row, bytes.data() + at, sizeof row);
    if (!row.commit) continue;
    if (check(is_whole(row) && row.kind < kWriters && row.correlation < kRows)) met[row.kind][row.correlation]++;
  }
  for (auto& numbers : met)
    for (int times : numbers) check(times == 1);
  std::string strings = recording.file("strings");
  for (uint64_t number = 1; number < 97; number++) check(strings.find(name_of(number)) != std::string::npos);
}

}  // namespace

int main() {
  sanitized::Recording recording;
  std::atomic<bool> done{false};
  std::atomic<uint32_t> newest{0};
  std::thread reader(read_while, std::cref(done), std::cref(newest));
  sanitized::in_threads(kWriters, [&](unsigned writer) { write(writer, newest); });
  done = true;
  reader.join();
  check_file(recording);
  check(control::recording());
  check(control::await_users([]() noexcept { return false; }));
  spool::abandon();
  return sanitized::status();
}
