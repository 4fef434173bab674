// A native stack for tests: innermost first, with details that the walk itself does not need.
#pragma once
#include "unwind/native_unwinder.hpp"

namespace aiflame {

struct NativeFrame {
  uint64_t pc, sp;
  uint64_t cfa;  // where its caller begins
  FrameWord word;
};

inline size_t innermost_first(NativeUnwinder& unwinder, const Registers& from, uint64_t high, NativeFrame* out, size_t room,
                              Ending* ending) noexcept {
  NativeStack stack = unwinder.unwind(from, high);
  *ending = stack.ending;
  size_t count = 0;
  for (uint32_t at = stack.count; at > 0 && count < room; at--) {
    uint64_t sp = stack.sps[at - 1];
    out[count++] = {.pc = stack.pcs[at - 1], .sp = sp, .cfa = at > 1 ? stack.sps[at - 2] : sp, .word = stack.words[at - 1]};
  }
  return count;
}

}  // namespace aiflame
