// Memory outside of the stack for a copy, since a handler's stack may be small. One region is kept for reuse.
#pragma once
#include "base/sys.hpp"

#include <atomic>

namespace aiflame {

class Scratch {
 public:
  Scratch() noexcept : data_(spare.exchange(nullptr)) {
    if (!data_) data_ = static_cast<char*>(sys::map_memory(kBytes));
  }
  ~Scratch() {
    char* none = nullptr;
    if (data_ && !spare.compare_exchange_strong(none, data_)) sys::unmap_memory(data_, kBytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const noexcept { return data_; }
  size_t size() const noexcept { return data_ ? kBytes : 0; }

 private:
  static constexpr size_t kBytes = 512 * 1024;
  inline static std::atomic<char*> spare;
  char* data_;
};

}  // namespace aiflame
