// Writes the rows of commands: `launches` when a list goes to a device, `kernels` or `copies` when a command's event says that it is over.
//
// An event has a command's time stamps if its pool was made with that flag: level_zero.cpp adds the flag to all pools of the program. A
// command without an event gets one of ours. So does one whose event counts, once the program has reused such an event before its command was
// done (as SYCL does that drops the events of its launches): a barrier behind it signals the program's. Level Zero has no callback for the end of a
// command: we look for completed commands at every wait of the program.
#pragma once
#include "hooks/stand_in/level_zero_handles.hpp"
#include "sampler/torch_autograd.hpp"
#include "unwind/frames.hpp"

#include "aiflame_schema.hpp"

namespace aiflame::level_zero {

// The work of a command.
struct Work {
  Handle kernel;  // 0: a copy
  schema::CopyKind copy;
  uint64_t bytes;
  uint32_t grid[3], block[3];
};

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

// A call that gives lists to a device; construct it before the call. `queue`: a queue or an immediate list.
class Executing {
 public:
  Executing(const Api& api, Object* queue, uint32_t count, const Handle* lists) noexcept;
  void done(bool success) noexcept;

 private:
  const Api& api_;
  uint32_t stream_ = 0, count_;
  bool synchronous_ = false;
  const Handle* lists_;
  uint32_t thread_ = 0;
  uint64_t begin_ns_ = 0;
};

// Writes the rows of completed commands. SOME, for polls, looks only at the oldest commands in flight: a program may poll a million times.
enum class Effort { ALL, SOME };
void collect(const Api& api, Effort effort) noexcept;
bool in_flight() noexcept;

// With the lock held. Reads the time stamps of the program's event, which would be lost otherwise.
// False: the command that signals it is not done.
bool finish_event(const Api& api, Object& event) noexcept;
void forget_commands(const Api& api, Object& list) noexcept;
void forget_context(const Api& api, Handle context) noexcept;

}  // namespace aiflame::level_zero
