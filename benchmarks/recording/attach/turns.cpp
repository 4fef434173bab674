// A program to attach to, in two threads; see turns.py.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <thread>

namespace {
volatile sig_atomic_t asked;
volatile unsigned long sink;

__attribute__((noinline)) void turn(long size) {
  unsigned long total = 0;
  for (long number = 0; number < size * 200'000; number++) total += number * number ^ total >> 3;
  sink = total;
}
__attribute__((noinline)) void light() { turn(3), sink = sink + 1; }
__attribute__((noinline)) void heavy() { turn(9), sink = sink + 1; }

void work(bool answers) {
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::milli> longest{};
  for (auto before = Clock::now();;) {
    for (auto part : {light, heavy}) {
      part();
      auto now = Clock::now();
      if (now - before > longest) longest = now - before;
      before = now;
    }
    if (answers && asked) {
      asked = 0;
      std::printf("%.3f\n", longest.count());
      longest = {};
    }
  }
}
}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::signal(SIGUSR1, [](int) { asked = 1; });
  std::puts("begun");
  std::thread(work, false).detach();
  work(true);
}
