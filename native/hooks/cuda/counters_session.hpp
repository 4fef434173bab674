// CUPTI's side of counting on one device: its configuration and its samples. One thread at a time.
#pragma once
#include "hooks/cuda/counters_host.hpp"
#include "hooks/cuda/counters_metrics.hpp"
#include "hooks/cuda/cupti_api.hpp"

#include <cstddef>
#include <cstdint>

namespace aiflame::cuda::counters {

class Session {
 public:
  // If it fails, nothing is counted, and a note says why.
  bool start(uint32_t device, uint64_t interval_ns) noexcept;

  enum class Read : uint8_t {
    WHOLE,
    PART,        // there are more samples: read on
    OVERFLOWED,  // the device's buffer was full: there will be no more samples
    FAILED,
  };
  // Writes the samples since the last time as rows of `gpu_counters`.
  Read read() noexcept;

  void stop() noexcept;
  bool started() const noexcept { return object_ != nullptr; }
  // Frees memory without a call to CUPTI: for a process in which CUPTI does not run.
  void release() noexcept;
  // Leaks the memory, because CUPTI may still use it.
  void abandon() noexcept;

 private:
  bool configure(uint64_t interval_ns) noexcept;
  bool make_samples() noexcept;
  bool clear_samples() noexcept;
  void write(size_t sample) noexcept;

  uint32_t device_ = 0, device_text_ = 0;
  const char* chip_ = nullptr;
  CUpti_PmSampling_Object* object_ = nullptr;
  Host host_{};
  Image availability_{}, configuration_{}, samples_{};
  Metrics metrics_{};
  const char* vendors_[kMostMetrics]{};
  uint32_t texts_[kMostMetrics]{};
  uint64_t until_ = 0;         // the end of the last sample, as CUPTI gives it; 0: there was none
  uint64_t clock_offset_ = 0;  // the difference between that and our clock
};

}  // namespace aiflame::cuda::counters
