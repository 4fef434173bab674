// CUPTI's computations about counters, which need no device: the configuration that counts some of them, and their values in a sample.
#pragma once
#include "hooks/cuda/counters_metrics.hpp"
#include "hooks/cuda/cupti_api.hpp"

namespace aiflame::cuda::counters {

class Host {
 public:
  CUptiResult open(const char* chip, const Image& availability) noexcept;
  void close() noexcept;

  // How often the same work would have to run to count all of these; 0: the chip does not know one of them. `configuration`, if given: the bytes that
  // make the device count them, which the caller frees. Once for each open().
  size_t passes(const char** names, size_t count, Image* configuration) noexcept;
  CUptiResult evaluate(const Image& samples, size_t sample, const char** names, size_t count, double* values) noexcept;

 private:
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

}  // namespace aiflame::cuda::counters
