// The order in which CUPTI may be called, without a call to it: the next step is a value.
//
// CUPTI serves one subscriber, crashes when a destroyed context is drained, and must not be called after the driver has shut down.
#pragma once
#include <array>
#include <cstdint>

namespace aiflame::cuda {

enum class LifeState : uint8_t {
  ABSENT,      // the program has not started CUDA, or CUPTI is missing
  COLLECTING,  // subscribed, activity on
  ASIDE,       // another tool in the program uses CUPTI
  STOPPED,     // the recording has ended; another may begin
  GONE,        // the child of a fork, or the process ends: CUPTI is never called again
};

enum class LifeEvent : uint8_t {
  START,       // cuInit ran, or a recording begins in a program that uses CUDA
  YIELD,       // another tool is about to subscribe
  REGAIN,      // it has left
  STOP,        // the recording ends
  EXIT,        // the process ends
  FORK_CHILD,  // we are the child of a process that used CUDA
};

enum class LifeStep : uint8_t {
  NONE,
  SUBSCRIBE,
  ENABLE_ACTIVITY,
  START_SAMPLING,  // for contexts that exist already
  START_WORKER,
  STOP_WORKER,
  STOP_SAMPLING,     // after a last drain of every context
  DISABLE_ACTIVITY,  // first, so that no record is written to a buffer after the flush: the next tool would get it
  FLUSH,
  UNSUBSCRIBE,
  FORGET,  // drop our state without a call to CUPTI
};

struct LifeChange {
  LifeState next;
  std::array<LifeStep, 5> steps{};
};

constexpr LifeChange life_change(LifeState state, LifeEvent event) noexcept {
  using enum LifeState;
  using enum LifeStep;
  constexpr LifeChange begin{COLLECTING, {SUBSCRIBE, ENABLE_ACTIVITY, START_SAMPLING, START_WORKER}};
  constexpr std::array<LifeStep, 5> end{DISABLE_ACTIVITY, STOP_WORKER, STOP_SAMPLING, FLUSH, UNSUBSCRIBE};
  switch (event) {
    case LifeEvent::START:
      return state == ABSENT || state == STOPPED ? begin : LifeChange{state};
    case LifeEvent::YIELD:
      return state == COLLECTING ? LifeChange{ASIDE, end} : LifeChange{state};
    case LifeEvent::REGAIN:
      return state == ASIDE ? begin : LifeChange{state};
    case LifeEvent::STOP:
      if (state == COLLECTING) return {STOPPED, end};
      return state == ASIDE ? LifeChange{STOPPED} : LifeChange{state};
    case LifeEvent::EXIT:
      return state == COLLECTING ? LifeChange{GONE, end} : LifeChange{GONE};
    case LifeEvent::FORK_CHILD:
      // If the parent had not started CUDA, the child may start it; other children cannot use it.
      return state == ABSENT ? LifeChange{ABSENT} : LifeChange{GONE, {FORGET}};
  }
  return {state};
}

}  // namespace aiflame::cuda
