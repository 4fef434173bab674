// Checks whether the calling thread has thread-local memory of its own.
//
// A thread made by a raw clone() may share its creator's block, or have none (fs = 0). A handler checks this before it touches a thread_local.
#pragma once
#include <cstdint>

namespace aiflame::thread_block {

// The address of the block that %fs points to (it begins with its own address, x86-64 ABI); 0 if the load faults: see safe_load.
inline uint64_t address() noexcept {
  uint64_t value = 0;
  asm volatile(
      "1: mov %%fs:0x10, %0\n"
      "2:\n"
      ".pushsection aiflame_loads, \"a?\", @progbits\n"
      ".balign 4\n"
      ".long 1b - ., 2b - 1b\n"
      ".popsection"
      : "+r"(value));
  return value;
}

// Finds where libc keeps a thread's id in its block. libc has made the calling thread, and its id is `tid`.
void learn(uint32_t tid) noexcept;

// True if the block belongs to the libc thread `tid`. False until learn() knows libc's layout.
bool belongs_to(uint64_t block, uint32_t tid) noexcept;

// True if the calling thread may touch its thread-locals. Reads its id from the kernel.
bool usable() noexcept;

}  // namespace aiflame::thread_block
