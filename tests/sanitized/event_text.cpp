// The writer of events: text of rows with all kinds of pieces, in every room from none to more than enough.
#include "trace_writer/event_text.hpp"
#include "check.hpp"

#include <string>
#include <vector>

using namespace aiflame::trace_writer;
using sanitized::check;

namespace {

constexpr int64_t kLeast = INT64_MIN, kMost = INT64_MAX;

Piece text(const char* of) { return {Kind::TEXT, 0, static_cast<int64_t>(std::string(of).size()), of, nullptr, nullptr}; }

// The whole text, written in parts of at most `room` bytes; empty: a row has no room.
std::string written(const Events& events, size_t room) {
  std::string all;
  std::vector<char> part(room);
  for (int64_t row = 0; row < events.rows;) {
    size_t size = write(events, &row, all.empty(), part.data(), part.size());
    if (!size) return "";
    all.append(part.data(), size);
  }
  return all;
}

}  // namespace

int main() {
  const int64_t numbers[] = {0, -1, kLeast, kMost}, times[] = {1, -1234, kLeast, 999'999}, which[] = {2, 0, 1, 2}, ends[] = {0, 4, 4, 9};
  const Piece pieces[] = {
      text("{\"n\":"),
      {Kind::NUMBER, 0, 0, nullptr, numbers, nullptr},
      text(",\"t\":"),
      {Kind::MICROSECONDS, 0, 0, nullptr, times, nullptr},
      {Kind::MEMBERS, 3, 0, nullptr, nullptr, nullptr},
      {Kind::CHOSEN, 0, 0, ",a:1,b:22", which, ends},
      {Kind::AT_LEAST, 1, 0, nullptr, numbers, nullptr},
      text(",c:3"),
      text("}"),
  };
  const std::string right =
      "\n{\"n\":0,\"t\":0.001,\"args\":{b:22,c:3}}"
      ",\n{\"n\":-1,\"t\":-1.234,\"args\":{a:1}}"
      ",\n{\"n\":-9223372036854775808,\"t\":-9223372036854775.808}"
      ",\n{\"n\":9223372036854775807,\"t\":999.999,\"args\":{b:22,c:3}}";
  size_t longest = std::string(",\n{\"n\":9223372036854775807,\"t\":999.999,\"args\":{b:22,c:3}}").size();
  const Events events{pieces, sizeof pieces / sizeof *pieces, 4};
  for (size_t room = 0; room < right.size() + 9; room++) {
    // A row without members needs room for the name of their list for a moment.
    std::string got = written(events, room);
    check(got == right ? room >= longest : got.empty() && room < longest + 8);
  }
  return sanitized::status();
}
