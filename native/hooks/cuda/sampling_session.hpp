// CUPTI's side of sampling one context: its configuration, the memory that it writes samples into, and how we read that.
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
  // Nothing is sampled when it fails; a note says why.
  bool start(CUcontext context, const Plan& plan) noexcept;
  // It began on this context, even if start() failed after that.
  bool was_enabled() const noexcept { return enabled_; }
  // The samples since the last time, or a part of them (see has_more()).
  CUptiResult read() noexcept;
  // Ends sampling. left_over() has the samples that were not read by then.
  bool stop() noexcept;

  Samples samples() const noexcept { return {*fetched_, stride_}; }
  Samples left_over() const noexcept { return {*configured_, stride_}; }
  bool has_more() const noexcept;
  const Reasons& reasons() const noexcept { return *reasons_; }

  // Gives memory back: after stop(), or in a process where CUPTI does not run.
  void release() noexcept;
  // CUPTI may be writing into it still.
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
  // Two buffers: CUPTI's own threads write the one that it was configured with at any time.
  CUpti_PCSamplingData* configured_ = nullptr;
  CUpti_PCSamplingData* fetched_ = nullptr;
  Reasons* reasons_ = nullptr;
};

}  // namespace aiflame::cuda::sampling
