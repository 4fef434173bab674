// CUPTI's side of sampling one context: its configuration, and the memory into which it writes samples, which we read.
#pragma once
#include "hooks/cuda/cupti_api.hpp"
#include "hooks/cuda/sampling_plan.hpp"

#include <cstddef>
#include <cstdint>

namespace aiflame::cuda::sampling {

constexpr uint32_t kMostReasons = 128;

struct Reasons {
  uint32_t count;
  uint32_t index[kMostReasons];
  char names[kMostReasons][CUPTI_STALL_REASON_STRING_SIZE];
};

// The samples that CUPTI has written: read() and stop() leave one.
class Samples {
 public:
  Samples(const CUpti_PCSamplingData& data, size_t stride) noexcept : data_(data), stride_(stride) {}

  const CUpti_PCSamplingData& totals() const noexcept { return data_; }
  size_t size() const noexcept { return data_.totalNumPcs < data_.collectNumPcs ? data_.totalNumPcs : data_.collectNumPcs; }
  const CUpti_PCSamplingPCData& operator[](size_t number) const noexcept {
    return *reinterpret_cast<const CUpti_PCSamplingPCData*>(reinterpret_cast<const char*>(data_.pPcData) + number * stride_);
  }

 private:
  const CUpti_PCSamplingData& data_;
  size_t stride_;
};

class Session {
 public:
  // If it fails, nothing is sampled, and a note says why.
  bool start(CUcontext context, const Plan& plan) noexcept;
  // True if sampling began on this context, even if start() failed after that.
  bool was_enabled() const noexcept { return enabled_; }
  // The samples since the last time, or a part of them (see has_more()).
  CUptiResult read() noexcept;
  // Ends sampling. left_over() has the samples that were not read before.
  bool stop() noexcept;

  Samples samples() const noexcept { return {*fetched_, stride_}; }
  Samples left_over() const noexcept { return {*configured_, stride_}; }
  bool has_more() const noexcept;
  const Reasons& reasons() const noexcept { return *reasons_; }

  // Frees memory: after stop(), or in a process in which CUPTI does not run.
  void release() noexcept;
  // Leaks the memory, because CUPTI may still write to it.
  void abandon() noexcept { memory_ = nullptr; }

 private:
  bool map() noexcept;
  bool ask_reasons() noexcept;
  bool configure(const Plan& plan) noexcept;
  void prepare(CUpti_PCSamplingData* data, char* records, char* counts, size_t instructions) const noexcept;

  CUcontext context_ = nullptr;
  bool enabled_ = false;
  char* memory_ = nullptr;
  size_t stride_ = 0;
  // Two buffers: CUPTI's own threads may write at any time to the one with which it was configured.
  CUpti_PCSamplingData* configured_ = nullptr;
  CUpti_PCSamplingData* fetched_ = nullptr;
  Reasons* reasons_ = nullptr;
};

}  // namespace aiflame::cuda::sampling
