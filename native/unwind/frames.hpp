// The frames that the two unwinders pass to the merge.
#pragma once
#include "aiflame_schema.hpp"

#include <ucontext.h>
#include <cstddef>
#include <cstdint>

namespace aiflame {

// A frame in 64 bits; see FrameKind in profile/schema for the fields of each kind.
using FrameWord = uint64_t;

constexpr FrameWord frame_word(schema::FrameKind kind, uint64_t id, uint64_t rest) noexcept {
  bool module = kind == schema::FrameKind::NATIVE || kind == schema::FrameKind::NATIVE_APPROX;
  return static_cast<uint64_t>(kind) << 60 | id << (module ? 40 : 32) | rest;
}

struct PythonFrame {
  FrameWord word;
  uint64_t evaluator;  // an address on the C stack inside the native frame that evaluates it; 0 when unknown
  bool entry;          // the outermost Python frame of that native evaluator
};

// A word of memory, and the value that a walk read there.
struct Read {
  uint64_t address, value;
  bool operator==(const Read&) const = default;
};

struct Registers {
  uint64_t pc, sp, bp;
  const greg_t* all;  // every register, when a signal frame supplies them; else nullptr
  bool exact;         // pc is the instruction itself (signal), not a return address
};

}  // namespace aiflame
