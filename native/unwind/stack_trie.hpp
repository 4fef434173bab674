// All stacks of a process as one trie; equal stacks have one id. Lookups and inserts are lock-free and run in signal handlers.
#pragma once
#include "base/fresh_memory.hpp"
#include "unwind/frames.hpp"

namespace aiflame::trie {

// The node for `frame` called from `parent` (0: the root). 0 if recording has stopped.
uint32_t node(uint32_t parent, FrameWord frame) noexcept;

// Empties the trie, when a recording begins or in the child of a fork.
void clear(fresh_memory::Who who) noexcept;
// How often the trie was emptied: nodes of an earlier generation are invalid.
uint32_t generation() noexcept;

}  // namespace aiflame::trie
