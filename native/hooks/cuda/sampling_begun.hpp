// Contexts on which sampling has begun, until they go. With launches held, it may begin again; otherwise, beside threads that launch kernels, a
// second time has locked up the driver.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::cuda::sampling {

class BegunContexts {
 public:
  // False: there is no room.
  bool remember(CUcontext context) noexcept {
    for (auto& one : contexts_) {
      CUcontext none = nullptr;
      if (one.compare_exchange_strong(none, context)) return true;
    }
    return false;
  }

  void forget(CUcontext context) noexcept {
    for (auto& one : contexts_) {
      CUcontext same = context;
      one.compare_exchange_strong(same, nullptr);
    }
  }

  bool has(CUcontext context) const noexcept {
    for (const auto& one : contexts_)
      if (one.load() == context) return true;
    return false;
  }

 private:
  static constexpr uint32_t kMost = 256;
  std::atomic<CUcontext> contexts_[kMost];
};

}  // namespace aiflame::cuda::sampling
