// Graphs of Level Zero: commands that lists record instead of executing them, and that run each time the graph is appended to a list.
//
// A graph's commands form a chain. The graph and its executable graphs share it; it is freed with the last of them.
#pragma once
#include "hooks/stand_in/level_zero_handles.hpp"

namespace aiflame::level_zero {

struct Chain {
  uint32_t first, last;  // its commands
  uint32_t users;        // 0: a free one
  Handle lists[8];       // that record into it now
  uint32_t list_count;
};

// A call of a function of graphs: makes it.
uint64_t graph_call(const Api& api, stand_in::Call& call);

// All with the lock held. The chain into which a list records its commands; nullptr: it executes them.
Chain* chain_of_list(const Api& api, Object& list) noexcept;
// The chain of an executable graph; nullptr: it is not known.
Chain* chain_of_executable(Handle graph) noexcept;
void forget_chains() noexcept;

}  // namespace aiflame::level_zero
