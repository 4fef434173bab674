// Holds the program's threads before their launches for a moment.
//
// Beginning or ending the sampling of stalls on a live context, while another thread launches kernels there, locks up the driver (seen on an H100 and
// an H200). With every such thread held before its launch it worked each time, also with threads in blocking waits, copies and allocations, and
// repeatedly on one context.
//
// An open gate costs a launch two stores and a load of its own memory. The thread that closes the gate has the kernel order them.
#pragma once
#include "sampler/threads.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::cuda::gate {

extern constinit std::atomic<uint32_t> closed;

// Waits until the gate is open. False: it has been closed for so long that the thread that closed it must hang.
bool await() noexcept;

// The calling thread is about to launch / has returned.
inline void enter(Thread& thread) noexcept {
  do {
    thread.launching.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!closed.load(std::memory_order_acquire)) [[likely]]
      return;
    thread.launching.store(0, std::memory_order_release);
  } while (await());
}
inline void leave(Thread& thread) noexcept { thread.launching.store(0, std::memory_order_release); }

// The gate is closed as long as one of these exists that is true.
class Closed {
 public:
  // False if a launch that has begun takes longer than `patience`, or another thread has the gate.
  explicit Closed(uint64_t patience) noexcept;
  ~Closed() { open(); }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  explicit operator bool() const noexcept { return holds_; }

 private:
  void open() noexcept;
  bool holds_ = false;
};

void after_fork_child() noexcept;

}  // namespace aiflame::cuda::gate
