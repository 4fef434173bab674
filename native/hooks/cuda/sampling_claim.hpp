// Only one process may sample a device. With a second one, CUPTI fails to fetch samples in one of the two, ends itself there, and loses the
// records of all kernels from then on (observed on an H200, in most of six concurrent processes).
#pragma once
#include <cstdint>

namespace aiflame::cuda::sampling {

// One process's claim to a device, among all processes in this network namespace that aiflame records.
class Claim {
 public:
  // False: another process has the device. True also if we cannot find out.
  bool take(uint32_t ordinal) noexcept;
  // Also for the child of a fork: the parent keeps its claim.
  void release() noexcept;

 private:
  bool taken_;  // zeroed memory is a Claim that holds nothing
  long socket_;
};

}  // namespace aiflame::cuda::sampling
