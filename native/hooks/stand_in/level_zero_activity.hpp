// Writes the rows of commands: `launches` when a list goes to a device, `kernels` or `copies` when a command's event says that it is over.
//
// An event has a command's time stamps if its pool was made with that flag: level_zero.cpp adds the flag to all pools of the program. A
// command without an event gets one of ours. So does one whose event counts, once the program has reused such an event before its command was
// done (as SYCL does that drops the events of its launches): a barrier behind it signals the program's. Level Zero has no callback for the end of a
// command: we look for completed commands at every wait of the program.
#pragma once
#include "hooks/stand_in/level_zero_commands.hpp"
#include "sampler/torch_autograd.hpp"
#include "unwind/frames.hpp"

#include "aiflame_schema.hpp"

namespace aiflame::level_zero {

// A call that appends a command to a list; construct it before the call. An immediate list's commands go to the device with this call.
class Appending {
 public:
  Appending(const Api& api, Handle list, Handle event, const Registers& caller) noexcept;
  // The event that the command will signal: the program's, or ours.
  Handle event() const noexcept { return event_; }
  void done(bool success, const Work& work) noexcept;

 private:
  const Api& api_;
  Handle list_, event_, context_ = 0;
  Handle signal_after_ = 0;  // the program's event, where the command signals one of ours

  bool known_ = false, ours_ = false, timed_ = false;
  uint32_t recording_ = 0, thread_ = 0, stack_ = 0;
  torch_autograd::Point point_{};
  uint64_t begin_ns_ = 0;
};

// The call of the program that comes next, without the lock. `thread` 0: nothing is recorded.
struct Caller {
  uint32_t thread = 0, stack = 0;
  torch_autograd::Point point{};
};
Caller caller_of(const Registers& registers) noexcept;

// A call that appends an executable graph to a list; construct it before the call. All its commands have the launch's correlation.
class Replaying {
 public:
  Replaying(const Api& api, Handle list, Handle graph, const Registers& caller) noexcept;
  void done(bool success) noexcept;

 private:
  const Api& api_;
  Handle list_, graph_;
  Caller caller_;
  bool known_ = false;
  uint64_t begin_ns_ = 0;
};

// A call that gives lists to a device; construct it before the call, with the lock held. `queue`: a queue or an immediate list. Lists that are
// appended to an immediate list are replayed, as graphs are; so is a list that a queue executes once more: for the first time, it is as if its
// commands were launched where they were appended.
class Executing {
 public:
  Executing(const Api& api, Object* queue, uint32_t count, const Handle* lists, const Caller& caller) noexcept;
  void done(bool success) noexcept;

 private:
  const Api& api_;
  uint32_t stream_ = 0, count_;
  bool synchronous_ = false, appends_ = false;
  const Handle* lists_;
  Caller caller_;
  uint64_t begin_ns_ = 0;
};

}  // namespace aiflame::level_zero
