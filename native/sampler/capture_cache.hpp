// A cache of the stacks from which a thread has called hooks: a program launches the same work from the same places, in the same order.
//
// A capture depends only on the words that it reads: of the stack, and of the interpreter's frames. The words of a recurring stack are stored with
// its node. If none of them has changed at the next capture, the stack has the same node and need not be walked.
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
  uint32_t proof;  // its proof's place in `kept`, 0: none
};

// A proof: the words that were read for a stack, and by which it is recognized.
struct Proof {
  uint64_t pc, sp, bp;                  // where the walk began
  uint64_t python;                      // python::walked_from()
  uint64_t stamp;                       // generation::current(); 0: this is not a proof
  uint32_t native_words, python_words;  // places in `kept` of the first span of each
  uint32_t node;
  uint32_t seen;   // number in CaptureCache::order of the last capture with this proof, or with the stack's earlier proof; 0: none yet
  uint32_t other;  // an earlier proof of the same stack, since its frames may alternate between addresses; 0: none that is valid
  bool by_bp;
  uint8_t made;  // how many proofs the stack has had
};

// The words that a capture read, outermost first; they follow this header. Stacks begin alike: a span does not repeat the words that it shares
// with an earlier one.
struct Span {
  uint32_t outside, outside_count;  // the span whose first `outside_count` words are the beginning of this one's; 0: none
  uint32_t count;
};

// The cache of one thread. Zeroed memory is an empty cache; most threads touch only a small part of it.
struct CaptureCache {
  // A training step has thousands of launches, each from its own place. A set fills a cache line.
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
  uint64_t stack_high;  // the thread's; once it changes, no proof is valid
  uint32_t captures;    // of stacks that had a proof
  uint32_t last;        // proof of the last captured stack, 0: it has none
  uint32_t expected;    // number in `order` of the proof to expect next, 0: unknown
  uint32_t after_last;  // number in `order` of the proof that followed `last` the time before
  uint32_t used;
  bool full;
  uint32_t last_native, last_python;  // the newest spans: a new span is compared with them
  uint64_t begun_ns;
  uint32_t order[kMostOrder];  // the proofs of captured stacks, in order of capture, from number 1 on, in a ring
  alignas(64) CachedStack at[kSets * kWays];
  // A proof and its spans, then those of the stack that came next: entries that are compared in turn lie side by side.
  alignas(64) Slot kept[kRoom];
  Read native_read[kMostRead], python_read[kMostRead];  // scratch space for making a proof
};

namespace capture_cache {

// The node of the calling thread's stack, if a proof of it is valid; 0: the stack has to be walked.
uint32_t lookup(Thread& thread, const Registers& from) noexcept;

// Stores the stack that was just walked from there (Thread::last), and returns its node; `intern` gives the node of a new stack.
uint32_t node_of(Thread& thread, const Registers& from, uint32_t (*intern)(LastStack&) noexcept) noexcept;

// A jump left the thread's last capture: drops its unfinished entry.
void was_left(Thread& thread) noexcept;

// Frees the cache of a thread in which no capture is running any more.
void unmap(Thread& thread) noexcept;

}  // namespace capture_cache

}  // namespace aiflame
