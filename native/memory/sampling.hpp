// Decides which allocations are sampled: of all bytes that a thread allocates, one in so many, at random. A row's weight makes sums unbiased.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::memory::sampling {

// Bytes that the calling thread may allocate until the next sample.
extern constinit thread_local uint64_t left;

// True for an allocation that is not sampled. Almost every call of the program ends here.
inline bool passes(size_t bytes) noexcept {
  if (bytes > left) [[unlikely]]
    return false;
  left -= bytes;
  return true;
}

// For an allocation that does not pass: the bytes that it stands for, 0 if it is not sampled after all.
uint64_t weigh(size_t bytes) noexcept;

// A recording begins; or the calling thread is in the child of a fork, which is not to sample where its siblings do.
void begin_anew() noexcept;

}  // namespace aiflame::memory::sampling
