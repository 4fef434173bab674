// Two OpenMP regions, launched by two functions, whose workers do three quarters and one quarter of the work; and serial work
// meanwhile, for which workers wait. As a program, which prints who worked for whom and when, and as a library whose run() is called
// late.
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>

volatile double sink;

namespace {

struct Stay {
  const char* under;
  int tid;
  long long begin_ns, end_ns;  // CLOCK_MONOTONIC
};
Stay stays[4096];
std::atomic<int> count{0};

long long now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

}  // namespace

extern "C" {

__attribute__((noinline)) void leaf(long turns, const char* under) {
  Stay& stay = stays[count++ % 4096];
  stay = {under, gettid(), now_ns(), 0};
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
  stay.end_ns = now_ns();
}

__attribute__((noinline)) void launches_much() {
#pragma omp parallel num_threads(2)
  leaf(9000000, "launches_much");
}

__attribute__((noinline)) void launches_little() {
#pragma omp parallel for schedule(dynamic) num_threads(2)
  for (int part = 0; part < 20; part++) leaf(300000, "launches_little");
}

__attribute__((noinline)) void serial() { leaf(4000000, "serial"); }

__attribute__((noinline)) int reduces() {
  long sum = 0;
#pragma omp parallel for reduction(task, + : sum) num_threads(2)
  for (int part = 0; part < 100; part++) sum += part;
  return sum == 4950 ? 0 : 1;
}

int run() {
  int wrong = 0;
  for (int turn = 0; turn < 40; turn++) {
    launches_much();
    serial();
    launches_little();
    wrong |= reduces();
  }
  return wrong;
}
}

int main() {
  int wrong = run();
  for (int at = 0; at < count; at++) printf("%s %d %lld %lld\n", stays[at].under, stays[at].tid, stays[at].begin_ns, stays[at].end_ns);
  return wrong;
}
