// The reader of other profilers' traces, on documents that are whole, cut at every byte, with each byte changed, with holes, and made of nothing
// but brackets and quotes; in one piece and in small ones, which give the same. Linked twice: with a scanner with SSE2, and without (AIFLAME_SCALAR).
#include "check.hpp"
#include "trace_reader/arrow.hpp"
#include "trace_reader/document.hpp"
#include "trace_reader/nest.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace aiflame::trace_reader;
using sanitized::check;

namespace {

constexpr uint32_t kColumns = 5;
constexpr Wanted kWanted[kColumns] = {
    {"ts", 2, nullptr, 0, Kind::DECIMAL, 3}, {"name", 4, nullptr, 0, Kind::TEXT, 0}, {"args", 4, "id", 2, Kind::INT, 0},
    {"args", 4, "dims", 4, Kind::RAW, 0},    {"ts", 2, nullptr, 0, Kind::TEXT, 0},
};

// All that is known of a document in the end.
struct Found {
  std::vector<int64_t> values;
  std::vector<std::string> texts;
  uint64_t rows, places, bytes;
  bool operator==(const Found&) const = default;
};

// A copy of exactly its size, so that a read beyond it is found.
Failure feed(Document& document, const std::string& text, size_t at, size_t size) {
  std::unique_ptr<char[]> copy(new char[size]);
  std::copy_n(text.data() + at, size, copy.get());
  return document.feed({copy.get(), size});
}

void take_rows(const Document& document, Found& found) {
  found.rows += document.rows();
  for (size_t row = 0; row < document.rows(); row++)
    for (uint32_t column = 0; column < kColumns; column++)
      found.values.push_back(document.column(column).is_number() ? document.column(column).numbers[row] : document.column(column).texts[row]);
}

void take_texts(const Texts& texts, Found& found) {
  ArrowSchema schema;
  ArrowArray array;
  if (!check(export_texts(texts, &schema, &array))) return;
  auto* ends = static_cast<const int64_t*>(array.buffers[1]);
  auto* bytes = static_cast<const char*>(array.buffers[2]);
  for (uint32_t id = 1; id <= texts.count(); id++) {
    Span text = texts.text(id);
    found.texts.emplace_back(text.data, text.size);
    check(found.texts.back() == std::string(bytes + ends[id], static_cast<size_t>(ends[id + 1] - ends[id])));
  }
  array.release(&array);
  schema.release(&schema);
}

Found read(const std::string& text, size_t block, uint64_t most_text_bytes = 1 << 20) {
  Found found{};
  Document document(most_text_bytes, 7);
  check(document.begin({"traceEvents", 11}, kWanted, kColumns) == Failure::NONE);
  for (size_t at = 0; at < text.size(); at += block) {
    check(feed(document, text, at, std::min(block, text.size() - at)) == Failure::NONE);
    take_rows(document, found);
  }
  check(document.finish() == Failure::NONE);
  take_rows(document, found);
  take_texts(document.texts(), found);
  found.places = document.damage().places;
  found.bytes = document.damage().bytes;
  check(found.bytes <= text.size() && document.place() == text.size());
  return found;
}

std::string event(int number) {
  std::string text = std::to_string(number);
  return R"({"ph":"X", "name":"\u00e9\ud83d\ude00\" )" + text + R"(","ts": )" + text + R"(732650000123456.7895,"args":{"id":")" + text +
         R"(", "dims":[[1,2],[],{"a":null}], "of":[{"x":"},{"}, true,false,NaN,-Infinity,1e5]}})";
}

std::string document(int events, const std::string& between) {
  std::string text = R"({"version": 1, "device":[{"id":0,"name":"a"}],"traceEvents" : [)";
  for (int number = 0; number < events; number++) text += (number ? "," : "") + between + event(number);
  return text + "],\"last\":\"\\\\\"}\n";
}

void whole(const std::string& text, uint64_t events) {
  for (size_t block : {1, 7, 64, 100'000}) {
    Found found = read(text, block);
    check(found.rows == events && found.places == 0 && found.bytes == 0);
  }
}

void damaged(const std::string& text, std::mt19937& random) {
  const std::string bytes("{}[],:\"\\ x0-\n\0\xff", 15);
  for (size_t place = 0; place < text.size(); place++) {
    read(text.substr(0, place), 1 << 20);
    for (char byte : bytes) {
      std::string changed = text;
      changed[place] = byte;
      Found found = read(changed, 1 << 20);
      if (random() % 16 == 0) check(found == read(changed, 1 + random() % 9));
    }
  }
  for (int round = 0; round < 2000; round++) {
    std::string holed = text;
    holed.erase(random() % text.size(), random() % 200);
    check(read(holed, 1 << 20) == read(holed, 1 + random() % 50));
  }
}

void garbage(std::mt19937& random) {
  const std::string bytes("{}[],:\"\"\\ tfn0-eu\n\0\xff", 20);
  for (int round = 0; round < 20'000; round++) {
    std::string text = round % 2 ? "[" : R"({"traceEvents":[{"ts":)";
    for (size_t size = random() % 120; size > 0; size--) text += bytes[random() % bytes.size()];
    Found found = read(text, 1 << 20, random() % 40);
    if (round % 16 == 0) check(found.rows == read(text, 1 + random() % 5).rows);
  }
}

void large_values() {
  std::string list = "[";
  while (list.size() < kMostMemberBytes + 100) list += R"("]}\"", {"a":[1]},)";
  std::string text = R"({"a":)" + list + R"(0],"traceEvents":[)" + event(1) + R"(],"b":")" + std::string(kMostMemberBytes + 1, 'x') + "\"}";
  for (size_t block : {size_t{1} << 20, text.size()}) check(read(text, block).rows == 1);
  check(read(R"({"a":)" + list, 1 << 20).places == 1);
  check(read(R"({"a":)" + list + R"(}, "traceEvents":[)" + event(1) + "]}", 1 << 20).rows == 1);
}

void numbers(std::mt19937& random) {
  const std::string characters = "0123456789.-+eE";
  for (int round = 0; round < 200'000; round++) {
    size_t size = random() % 30;
    std::unique_ptr<char[]> text(new char[size]);
    for (size_t at = 0; at < size; at++) text[at] = characters[random() % (round % 2 ? 10 : characters.size())];
    int64_t value = 0;
    fixed_point({text.get(), size}, static_cast<int>(random() % 19), random() % 2 ? Rest::ROUNDED : Rest::NONE_ALLOWED, &value);
  }
}

void spans(std::mt19937& random) {
  for (int round = 0; round < 5000; round++) {
    size_t count = random() % 30;
    std::vector<std::array<int64_t, 3>> made(count);
    for (auto& [thread, begin, minus_end] : made) {
      thread = random() % 3;
      begin = random() % 8 ? static_cast<int64_t>(random() % 20) : INT64_MIN;
      minus_end = random() % 8 ? -static_cast<int64_t>(random() % 30) : -INT64_MAX;
    }
    std::sort(made.begin(), made.end());
    std::vector<uint32_t> threads;
    std::vector<int64_t> begins, ends, cut(count);
    std::vector<int32_t> parent(count);
    for (auto& [thread, from, minus_to] : made) {
      threads.push_back(static_cast<uint32_t>(thread));
      begins.push_back(from);
      ends.push_back(-minus_to);
    }
    Spans of{threads.data(), begins.data(), ends.data(), static_cast<int64_t>(count)};
    check(of.in_order() && nest(of, parent.data(), cut.data()) >= 0);
  }
}

}  // namespace

int main() {
  std::mt19937 random(1);
  whole(document(3, ""), 3);
  whole(document(200, "\n  "), 200);
  damaged(document(3, " "), random);
  garbage(random);
  large_values();
  numbers(random);
  spans(random);
  return sanitized::status();
}
