// Long turns of event loops: a thread that computes between two waits for events keeps all other work of its loop waiting.
//
// A wait for events costs a load and a comparison more: no clock is read, since ticks of CPU time mark a turn's begin.
#pragma once
#include "sampler/threads.hpp"

#include <cstdint>

namespace aiflame::loop_turns {

// Called in the handler of a tick on the thread's CPU clock.
inline void tick(Thread& thread, uint64_t now) noexcept {
  if (!thread.turn_ns.load(std::memory_order_relaxed)) thread.turn_ns.store(now, std::memory_order_relaxed);
}

// A long turn of the calling thread.
struct Turn {
  uint64_t begin_ns, end_ns;  // end_ns 0: the turn was not long
};

// The calling thread is about to wait for events.
inline uint64_t take() noexcept {
  Thread* thread = threads::self_if_known();
  uint64_t begin = thread ? thread->turn_ns.load(std::memory_order_relaxed) : 0;
  if (begin) [[unlikely]]
    thread->turn_ns.store(0, std::memory_order_relaxed);
  return begin;
}
Turn ended(uint64_t begin_ns) noexcept;

// The thread has waited. `found`: the call returned events; `no_wait`: it was asked to return at once.
void note(const Turn& turn, bool found, bool no_wait) noexcept;

// Waits for events by `call`.
template <class Call>
int wait(bool no_wait, Call call) {
  uint64_t begin_ns = take();
  if (!begin_ns) [[likely]]
    return call();
  Turn turn = ended(begin_ns);
  int result = call();
  if (turn.end_ns) note(turn, result > 0, no_wait);
  return result;
}

}  // namespace aiflame::loop_turns
