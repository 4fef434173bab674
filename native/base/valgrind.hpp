// Detects valgrind, which runs a program on a simulated processor.
#pragma once
#include <cstdint>

namespace aiflame {

// valgrind.h's RUNNING_ON_VALGRIND: on a real processor the instructions do nothing.
inline bool on_valgrind() noexcept {
  const uint64_t request[6] = {0x1001};
  uint64_t answer = 0;
  asm volatile(
      "rolq $3, %%rdi\n"
      "rolq $13, %%rdi\n"
      "rolq $61, %%rdi\n"
      "rolq $51, %%rdi\n"
      "xchgq %%rbx, %%rbx\n"
      : "+d"(answer)
      : "a"(request)
      : "cc", "memory");
  return answer != 0;
}

}  // namespace aiflame
