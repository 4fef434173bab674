#include "base/fresh_memory.hpp"

#include "base/sys.hpp"

#include <sys/mman.h>
#include <atomic>

namespace aiflame::fresh_memory {

namespace {

// The kernel has refused it for some of the memory: it is older than 4.14, or an emulation of Linux.
std::atomic<bool> is_copied{false};

long advise(void* memory, size_t bytes, int advice) noexcept {
  return sys::call(SYS_madvise, reinterpret_cast<long>(memory), static_cast<long>(bytes), advice);
}

}  // namespace

void* map(size_t bytes) noexcept {
  void* memory = sys::map_memory(bytes);
  if (memory && sys::failed(advise(memory, bytes, MADV_WIPEONFORK))) is_copied.store(true, std::memory_order_relaxed);
  return memory;
}

void clear(void* memory, size_t bytes, Who who) noexcept {
  if (who == Who::SAME_PROCESS || is_copied.load(std::memory_order_relaxed)) advise(memory, bytes, MADV_DONTNEED);
}

}  // namespace aiflame::fresh_memory
