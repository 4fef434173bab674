// The file of lives, as processes share it: threads reserve records and texts and read each other's texts by the remembered references.
#include "check.hpp"
#include "recording.hpp"
#include "spool/shared_lives.hpp"

using namespace aiflame;
using sanitized::check;

namespace {

constexpr unsigned kThreads = 6;
constexpr uint64_t kLives = 1500, kKeys = 40;

spool::SharedLives lives;

// Long ones take pages of their own.
std::string text_of(uint64_t key) { return std::string(key % 13 == 0 ? 5000 + key : key, static_cast<char>('a' + key % 26)); }

void work(unsigned thread) {
  for (uint64_t number = 0; number < kLives; number++) {
    uint64_t key = 1 + (number + thread) % kKeys;
    // Keys differ in their places: none forgets another.
    if (uint32_t known = lives.recall(key)) check(lives.text(known) == text_of(key));
    if (number % 7 == 0)
      if (uint32_t reference = lives.append(text_of(key))) lives.remember(key, reference);
    uint64_t place = lives.reserve();
    spool::Life* life = lives.at(place);
    if (!life) continue;  // another thread was mapping the file
    schema::LifeRecord record{.pid = thread, .start_ns = number};
    spool::write_row(&life->begin, &record, sizeof record);
    check(lives.covers(reinterpret_cast<uint64_t>(life)) && life->begin.pid == thread && life->begin.start_ns == number);
  }
}

}  // namespace

int main() {
  sanitized::Recording recording;
  sanitized::in_threads(kThreads, work);
  check(lives.text(0).empty() && lives.text(0x7fffffff).empty());
  for (uint64_t key = 1; key <= kKeys; key++) {
    uint32_t known = lives.recall(key);
    check(known && lives.text(known) == text_of(key));
  }
  lives.abandon();
  check(!lives.covers(1) && lives.text(1).empty());
  return sanitized::status();
}
