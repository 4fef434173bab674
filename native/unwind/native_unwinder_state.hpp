// What an unwinder keeps between walks: rules by address, and the last stack.
#pragma once
#include "unwind/eh_frame.hpp"
#include "unwind/native_unwinder.hpp"

namespace aiflame {

// What is known about an address, half a cache line.
struct alignas(32) Rule {
  uint64_t key;  // see key_of()
  FrameWord word;
  eh_frame::Row row;
  uint32_t generation;  // of modules, when it was found
  bool is(uint64_t wanted, uint32_t now) const noexcept { return key == wanted && generation == now; }
};
static_assert(sizeof(Rule) == 32);

// A frame of the last stack: its registers, and the memory that says who its caller is.
struct alignas(64) Link {
  uint64_t pc, sp, bp;
  FrameWord word;
  uint64_t bp_slot;              // where the caller's rbp was read, 0: it is the same
  uint64_t cfa_slot, cfa_value;  // where the CFA was read and what was there, 0: it follows from sp and bp
  bool plain;                    // pc is a return address that a rule led to: met again, it is this frame again
  bool steps;                    // while these slots and the return address stay, so does the caller
};
static_assert(sizeof(Link) == 64);

struct NativeUnwinder::State {
  static constexpr uint32_t kPairs = 2048;
  static constexpr uint32_t kLinks = 1024;

  // Two addresses of one stack that met in one place would push each other out at every walk.
  struct alignas(64) Pair {
    Rule rules[2];
  };
  Pair pairs[kPairs];
  Rule unkept;         // for addresses whose meaning may change at any time
  Link last[kLinks];   // outermost first, so that what did not change stays where it is
  Link fresh[kLinks];  // of this walk, innermost first
  uint32_t last_count;
  uint32_t last_generation;
  uint64_t last_high;     // of the stack that `last` was on
  uint64_t outermost_sp;  // where rules alone last ended on it, 0: they have not yet

  // A return address is looked up one byte earlier, at its call: after a call that never returns, another function begins.
  static uint64_t key_of(uint64_t pc, bool exact) noexcept { return pc | static_cast<uint64_t>(exact) << 63; }

  // The rule, if it is at hand.
  const Rule* kept(uint64_t pc, bool exact, uint32_t generation) const noexcept {
    const Pair& pair = pairs[(pc ^ pc >> 11) % kPairs];
    uint64_t key = key_of(pc, exact);
    if (pair.rules[0].is(key, generation)) [[likely]]
      return &pair.rules[0];
    return pair.rules[1].is(key, generation) ? &pair.rules[1] : nullptr;
  }

  // `guess`: the address may be no code at all, so the map is not read anew for it.
  const Rule& rule(uint64_t pc, bool exact, uint32_t generation, bool guess) noexcept {
    const Rule* known = kept(pc, exact, generation);
    return known ? *known : find_rule(pc, exact, guess);
  }
  const Rule& find_rule(uint64_t pc, bool exact, bool guess) noexcept;
};

}  // namespace aiflame
