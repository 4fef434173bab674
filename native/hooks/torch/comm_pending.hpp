// Operations of torch.distributed that have begun and are not complete, by the address of the c10d::Work of each.
#pragma once
#include "records/calls.hpp"

namespace aiflame::torch_comm {

struct Pending {
  calls::Begun begun;
  calls::Function* function;
  calls::Outcome outcome;
  uint64_t handed_over_ns;
};

// False: too many are pending. An earlier operation at this address is moved to `stale` (its `function` is nullptr otherwise): its end was not
// reported before its memory was used again.
bool add(uint64_t work, const Pending& pending, Pending* stale) noexcept;
// If several threads do this at once, one gets the operation.
bool take(uint64_t work, Pending* pending) noexcept;
// Its group, 0: unknown, or it is complete.
uint32_t group_of(uint64_t work) noexcept;

}  // namespace aiflame::torch_comm
