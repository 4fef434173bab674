// The place from which a hook was called.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame::hooks {

// The registers of the caller of the function that this is inlined into: a stack from here does not show the function itself.
__attribute__((always_inline)) inline Registers caller() noexcept {
  auto* frame = static_cast<uint64_t*>(__builtin_frame_address(0));
  return Registers{.pc = frame[1], .sp = reinterpret_cast<uint64_t>(frame + 2), .bp = frame[0], .all = nullptr, .exact = false};
}

}  // namespace aiflame::hooks
