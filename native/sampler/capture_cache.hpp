// A cache of the stacks from which a thread has called hooks: a program launches the same work from the same places, and in the same order.
//
// A capture depends only on the words that it reads: of the stack, and of the interpreter's frames. The words of a recurring stack are stored with
// its node. If all of them are the same the next time, so is the node, and no walk is needed.
#pragma once
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame {

struct LastStack;
struct Thread;

// A whole stack: its hash, and its trie node.
struct CachedStack {
  uint64_t hash;
  uint32_t node;
  uint32_t proof;  // its place in `kept`, 0: none
};

// A proof: the words from which a stack was read, by which it is recognized.
struct Proof {
  uint64_t pc, sp, bp;                  // where the walk began
  uint64_t python;                      // python::walked_from()
  uint64_t stamp;                       // generation::current(); 0: it is none
  uint32_t native_words, python_words;  // where the first of their spans are kept
  uint32_t node;
  uint32_t seen;   // number in CaptureCache::order when it was captured last, or the proof made before it; 0: not yet
  uint32_t other;  // the proof made before it of the same stack, whose frames may lie elsewhere by turns; 0: none that holds
  bool by_bp;
  uint8_t made;  // how many proofs the stack has had
};

// Words as they were read, outermost first; they follow this header. Stacks begin alike: words shared with another span are only stored there.
struct Span {
  uint32_t outside, outside_count;  // the span that it continues, and after how many of its words; 0: none
  uint32_t count;
};

// Of one thread. Zeroed memory knows none; little of it is touched as a rule.
struct CaptureCache {
  // A training step has thousands of launches, each from its own place: a set has room for those that fall into it, and is a cache line.
  static constexpr uint32_t kSets = 4096, kWays = 4;
  static constexpr uint32_t kRoom = 1 << 20, kMostRead = 4096;
  union Slot {
    Read read;
    Span span;
  };
  static constexpr uint32_t kProofSlots = 4;
  static constexpr uint32_t kMostOrder = 1 << 15;  // more launches than most steps have
  static_assert(sizeof(Slot) == 16 && sizeof(Proof) <= kProofSlots * sizeof(Slot));

  // The data that each launch needs fit into one line of the processor's cache.
  uint64_t stamp;       // when the last capture began
  uint64_t stack_high;  // the thread's: with another, no proof is one
  uint32_t captures;    // of stacks that had a proof
  uint32_t last;        // proof of the last captured stack, 0: it has none
  uint32_t expected;    // number in `order` of the proof to expect next, 0: unknown
  uint32_t after_last;  // number in `order` of the proof that followed `last` the time before
  uint32_t used;
  bool full;
  uint32_t last_native, last_python;  // spans made last: the next are compared with them
  uint64_t begun_ns;
  uint32_t order[kMostOrder];  // the proofs of captured stacks, in order of capture, from number 1 on, in a ring
  alignas(64) CachedStack at[kSets * kWays];
  // A proof and its spans, then those of the stack that came next: entries that are compared in turn lie side by side.
  alignas(64) Slot kept[kRoom];
  Read native_read[kMostRead], python_read[kMostRead];  // while a stack is proved
};

namespace capture_cache {

// The node of the calling thread's stack, if it is known at a glance; 0: it has to be walked.
uint32_t lookup(Thread& thread, const Registers& from) noexcept;

// Stores the stack that was just walked (Thread::last) from there, and returns its node; `intern` finds the node of a new stack.
uint32_t node_of(Thread& thread, const Registers& from, uint32_t (*intern)(LastStack&) noexcept) noexcept;

// The thread's last capture was left by a jump: its unfinished entry is dropped.
void was_left(Thread& thread) noexcept;

// Frees the cache of a thread in which no capture runs any more.
void unmap(Thread& thread) noexcept;

}  // namespace capture_cache

}  // namespace aiflame
