// Where the calling thread stands in torch's autograd, as plain numbers: for a test and a benchmark that load this into Python.
#include "base/clock.hpp"
#include "sampler/torch_autograd.hpp"

using namespace aiflame;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// A worker of an OpenMP region that was launched at 77 of thread 5.
Thread worker;

}  // namespace

EXPORT void autograd_calibrate(uint64_t node, uint64_t sequence) { torch_autograd::calibrate(node, sequence, 0); }
EXPORT uint64_t autograd_now() { return torch_autograd::packed(torch_autograd::now()); }
EXPORT uint64_t autograd_next() { return torch_autograd::packed(torch_autograd::next()); }
EXPORT uint64_t autograd_in_tick() {
  worker.launched_by = 1;
  worker.launched_point = 5ull << 32 | 77;
  return torch_autograd::packed(torch_autograd::in_tick(worker));
}

EXPORT uint64_t autograd_ns_for(uint64_t times) {
  uint64_t sum = 0, begin = now_ns();
  for (uint64_t time = 0; time < times; time++) sum += torch_autograd::packed(torch_autograd::now());
  uint64_t end = now_ns();
  asm volatile("" : : "r"(sum));
  return end - begin;
}
