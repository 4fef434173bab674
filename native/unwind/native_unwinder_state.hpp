// The state of an unwinder between walks: rules by address, and the last stack.
#pragma once
#include "unwind/eh_frame.hpp"
#include "unwind/native_unwinder.hpp"

namespace aiflame {

// Cached facts about an address, half a cache line.
struct alignas(32) Rule {
  uint64_t key;  // see key_of()
  FrameWord word;
  eh_frame::Row row;
  uint32_t caller;  // place of its last caller's rule: most frames have the same caller again
};
static_assert(sizeof(Rule) == 32);

// A frame of a walk: its registers, and the data that determine its caller.
struct Link {
  uint64_t pc, sp, bp;
  FrameWord word;
  uint64_t bp_slot;   // where the caller's rbp was read, 0: nowhere
  uint64_t cfa_slot;  // with READS_CFA, where the frame's end was read
  enum Flag : uint8_t {
    USES_BP = 1,     // its caller was found by its rbp
    LOSES_BP = 2,    // its caller's rbp is not known
    FOREIGN = 4,     // no rule led to its pc as a return address: the same pc may later be another frame
    ONCE = 8,        // its caller was not found only by registers, the return address, a saved rbp and READS_CFA
    READS_CFA = 64,  // a function that aligns its stack keeps where its frame ends in it
    // Flags of a frame of the last stack:
    NEEDS_BP = 16,   // with another rbp, it has other callers
    CHECKS_BP = 32,  // its caller needs the rbp that it saved
  };
  uint8_t flags;
};

struct NativeUnwinder::State {
  static constexpr uint32_t kRules = 4096, kSets = 2048, kWays = 4;
  static constexpr uint32_t kFrames = 1024;

  // Rules in the order in which walks found them, so that the rules of a stack are neighbours; the first is unused. When there is no more room,
  // all are discarded.
  Rule rules[kRules];
  uint32_t rules_used;
  uint32_t rules_generation;  // generation of the modules when the rules were found
  // Places of rules, by address. Addresses of one stack that share a set would evict each other at every walk.
  uint16_t index[kSets][kWays];
  Rule unkept;          // for addresses whose meaning may change at any time
  Link fresh[kFrames];  // of this walk, innermost first
  // The last stack, outermost first, so that unchanged frames stay in place; fields that are compared are neighbours.
  uint64_t pcs[kFrames], sps[kFrames];
  uint8_t flags[kFrames];
  struct {
    uint64_t value, slot;
  } bps[kFrames];
  struct {
    uint64_t value, slot;
  } cfas[kFrames];  // set for frames with READS_CFA
  FrameWord words[kFrames];
  uint32_t kept;  // its frames, if rules alone led to its outermost one; else 0
  uint32_t kept_generation;
  uint64_t kept_high;     // of the stack that it was on
  uint64_t outermost_sp;  // where rules alone last ended on it, 0: they have not yet

  // A return address is looked up one byte earlier, at its call: after a call that never returns, another function begins.
  static uint64_t key_of(uint64_t pc, bool exact) noexcept { return pc | static_cast<uint64_t>(exact) << 63; }

  // The rule, if it is cached for this generation of modules.
  Rule* kept_rule(uint64_t pc, bool exact) noexcept {
    uint64_t key = key_of(pc, exact);
    for (uint16_t place : index[set_of(pc)])
      if (rules[place].key == key) return &rules[place];
    return nullptr;
  }

  // `guess`: the address may be no code at all, so the map is not read again for it.
  const Rule& rule(uint64_t pc, bool exact, uint32_t generation, bool guess) noexcept {
    const Rule* known = rules_generation == generation ? kept_rule(pc, exact) : nullptr;
    return known ? *known : find_rule(pc, exact, guess);
  }
  const Rule& find_rule(uint64_t pc, bool exact, bool guess) noexcept;
  Rule& new_rule(uint64_t pc, uint32_t generation) noexcept;
  static uint64_t set_of(uint64_t pc) noexcept { return (pc ^ pc >> 11) % kSets; }
};

}  // namespace aiflame
