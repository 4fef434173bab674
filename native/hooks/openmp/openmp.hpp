// Puts the work of OpenMP's workers under the stack that launched their region, and marks idle workers.
#pragma once
#include "hooks/shared/caller.hpp"
#include "sampler/threads.hpp"

#include <cstdint>

namespace aiflame::openmp {

using hooks::caller;

__attribute__((always_inline)) inline uint64_t stack_pointer() noexcept {
  uint64_t sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  return sp;
}

// True if a runtime reports to us through OMPT, including its waits.
bool reported_by_ompt() noexcept;

// The stack of the region that libgomp's entry points are about to launch in this thread, 0: none.
uint32_t& launching() noexcept;

// The stack of a region that begins now; 0 if nothing is recorded.
uint32_t region_stack(const Registers& from) noexcept;

// While it exists, the thread's samples and launches are placed under `stack`; its own frames at or above the address `at` are left out.
class Under {
 public:
  Under(Thread* thread, uint32_t stack, uint64_t at) noexcept;
  ~Under();
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;

 private:
  Thread* thread_;
  uint32_t stack_, before_;
  uint64_t before_at_;
};

// Makes libraries that were bound to an OpenMP runtime before we were loaded call us: needed if we are not preloaded.
void patch_callers() noexcept;

}  // namespace aiflame::openmp
