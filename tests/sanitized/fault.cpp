// A fault of each kind that the gate is there to find. Each run of it must fail (`scripts/sanitize.sh --self-test`).
//
//   fault overflow|undefined|race|mismatch|assertion
#include "base/assertion.hpp"
#include "check.hpp"
#include "recording.hpp"

#include <limits>

namespace {

int shared;

int overflow(int bytes) {
  auto memory = std::make_unique<char[]>(static_cast<size_t>(bytes));
  volatile char* place = memory.get();
  return place[bytes];
}

int undefined(int most) {
  volatile int more = most + 1;
  return more;
}

int race() {
  sanitized::in_threads(2, [](unsigned thread) {
    for (int at = 0; at < 1000; at++) *const_cast<volatile int*>(&shared) = static_cast<int>(thread);
  });
  return 0;
}

int assertion(int count) {
  AIFLAME_ASSERT(count < 1);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::string kind = count > 1 ? arguments[1] : "";
  if (kind == "overflow") overflow(count * 4);
  if (kind == "undefined") undefined(std::numeric_limits<int>::max() - 2 + count);
  if (kind == "race") race();
  if (kind == "mismatch") sanitized::check(shared != 0);
  if (kind == "assertion") assertion(count);
  return sanitized::status();
}
