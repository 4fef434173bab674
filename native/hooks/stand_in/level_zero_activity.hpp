// From a command in a list to its rows: `launches` when it is given to a device, `kernels` or `copies` when its event says that it is over.
//
// An event has a command's time stamps, if it is of a pool that was made so: all of the program's are (level_zero.cpp). A command without
// an event gets one of ours. Nobody is called back when it is over: whoever waits for anything of Level Zero looks for what is.
#pragma once
#include "hooks/stand_in/level_zero_handles.hpp"
#include "sampler/torch_autograd.hpp"
#include "unwind/frames.hpp"

#include "aiflame_schema.hpp"

namespace aiflame::level_zero {

// What a command does.
struct Work {
  Handle kernel;  // 0: a copy
  schema::CopyKind copy;
  uint64_t bytes;
  uint32_t grid[3], block[3];
};

// A call that puts a command into a list, before it is made. For an immediate list it is given to the device by this.
class Appending {
 public:
  Appending(const Api& api, Handle list, Handle event, const Registers& caller) noexcept;
  // The event that is to be signaled: the program's, or ours.
  Handle event() const noexcept { return event_; }
  void done(bool success, const Work& work) noexcept;

 private:
  const Api& api_;
  Handle list_, event_, context_ = 0;
  bool known_ = false, ours_ = false, timed_ = false;
  uint32_t recording_ = 0, thread_ = 0, stack_ = 0;
  torch_autograd::Point point_{};
  uint64_t begin_ns_ = 0;
};

// A call that gives lists to a device, before it is made. `queue`: a queue or an immediate list.
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

// Writes the rows of what is over. A poll looks at some of what is in flight alone, since it may be made a million times.
enum class Effort { ALL, SOME };
void collect(const Api& api, Effort effort) noexcept;
bool in_flight() noexcept;

// With the lock held. What the program's event was to tell is told now or never.
void finish_event(const Api& api, Object& event) noexcept;
void forget_commands(const Api& api, Object& list) noexcept;
void forget_context(const Api& api, Handle context) noexcept;

}  // namespace aiflame::level_zero
