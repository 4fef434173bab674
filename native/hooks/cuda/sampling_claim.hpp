// One process samples a device: with a second one, CUPTI fails to fetch samples in one of them, ends itself there, and the records of all
// kernels from then on are lost (seen on an H200: most of six processes at once).
#pragma once
#include <cstdint>

namespace aiflame::cuda::sampling {

// Of all processes that aiflame records on this machine (of one network namespace).
class Claim {
 public:
  // False: another process has it. True where that cannot be found out.
  bool take(uint32_t ordinal) noexcept;
  // Also in the child of a fork, where it remains the parent's.
  void release() noexcept;

 private:
  bool taken_;  // zeroed memory is nothing taken
  long socket_;
};

}  // namespace aiflame::cuda::sampling
