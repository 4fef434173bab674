// Native stacks without frame pointers: `.eh_frame_hdr` search, one FDE run on demand, a pc → rule cache, and a verified chain.
//
// One per thread. Safe in a signal handler: no lock, no allocation (after construction), no libc call that could take either.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame {

enum class Ending : uint8_t {
  OUTERMOST,    // reached the thread's first frame
  APPROXIMATE,  // reached it, with at least one frame found by scanning
  LOST,         // no rule and nothing that validated
  BOUNDS,       // a rule led outside the stack
  FULL,         // more frames than room
};

// Frames by their number, outermost first.
struct NativeStack {
  const uint64_t* pcs;
  const uint64_t* sps;  // a frame lies between its sp and its caller's
  const FrameWord* words;
  uint32_t count;
  uint32_t same;  // number of outermost frames that are unchanged since the call before
  Ending ending;
};

// A frame that a walk reached from the frame inside of it.
struct Caller {
  uint64_t pc, sp;
  uint64_t bp_slot;  // address from which its rbp was read, 0: it has the rbp of the frame inside
  uint64_t by_bp;    // the rbp of the frame inside, if the walk used it to find this frame; else 0
};

class NativeUnwinder {
 public:
  static constexpr uint32_t kMostFrames = 1024;

  // Memory comes from sys::map_memory, so create() may be called in a handler. nullptr when there is no memory.
  static NativeUnwinder* create() noexcept;
  static void destroy(NativeUnwinder* unwinder) noexcept;

  // The frames from `from` to the outermost. Reads only [from.sp - 128, stack_high). The result is valid until the next call.
  NativeStack unwind(const Registers& from, uint64_t stack_high) noexcept;

  // The words of the stack that led the last walk from each frame to its caller, the outermost's first: while they do not change, a walk from the
  // same registers gives the same result. `by_bp`: rbp is one of these registers. 0 when other data led the walk, or there is no room.
  uint32_t reads(Read* out, uint32_t room, bool* by_bp) const noexcept;

  // The frames outside of `from`, innermost first, as far as rules lead, up to the first that is not `inner`, at most this many. Does not affect
  // later walks.
  uint32_t callers(const Registers& from, uint64_t stack_high, Caller* callers, uint32_t most, bool (*inner)(uint64_t pc)) noexcept;

  struct State;

 private:
  NativeUnwinder() = default;
  State* state_;
};

// The caller's own registers, for synchronous captures. Always inlined: pc is in the calling function.
__attribute__((always_inline)) inline Registers here() noexcept {
  Registers registers{};
  asm volatile("lea 0(%%rip), %0\n mov %%rsp, %1\n mov %%rbp, %2" : "=r"(registers.pc), "=r"(registers.sp), "=r"(registers.bp));
  registers.exact = true;
  return registers;
}

}  // namespace aiflame
