#include "base/own_process.hpp"

#include "base/sys.hpp"

#include <atomic>

namespace aiflame {

namespace {
std::atomic<uint32_t> own_pid{0};
}

bool own_process() noexcept {
  uint32_t own = own_pid.load(std::memory_order_relaxed);
  return own == 0 || own == sys::process_id();
}

void own_this_process() noexcept { own_pid.store(sys::process_id(), std::memory_order_relaxed); }

bool own_this_fork() noexcept {
  if (own_pid.load(std::memory_order_relaxed) == 0) return false;
  own_this_process();
  return true;
}

uint32_t own_process_id() noexcept {
  uint32_t own = own_pid.load(std::memory_order_relaxed);
  return own ? own : sys::process_id();
}

void stay_in_process() noexcept { own_pid.store(0, std::memory_order_relaxed); }

}  // namespace aiflame
