// Two OpenMP regions, launched by two functions, whose workers do three quarters and one quarter of the work; and serial work
// meanwhile, for which workers wait. As a program, and as a library whose run() is called late.
#include <cstdlib>

volatile double sink;

extern "C" {

__attribute__((noinline)) void leaf(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}

__attribute__((noinline)) void launches_much() {
#pragma omp parallel num_threads(2)
  leaf(9000000);
}

__attribute__((noinline)) void launches_little() {
#pragma omp parallel for schedule(dynamic) num_threads(2)
  for (int part = 0; part < 20; part++) leaf(300000);
}

__attribute__((noinline)) void serial() { leaf(4000000); }

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

int main() { return run(); }
