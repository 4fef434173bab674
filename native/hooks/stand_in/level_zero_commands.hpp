// The commands of lists and graphs, and those that a device executes now: their rows of `kernels` and `copies`.
#pragma once
#include "hooks/stand_in/level_zero_handles.hpp"
#include "sampler/torch_autograd.hpp"

#include "aiflame_schema.hpp"

namespace aiflame::level_zero {

// The work of a command.
struct Work {
  Handle kernel;  // 0: a copy
  schema::CopyKind copy;
  uint64_t bytes;
  uint32_t grid[3], block[3];
};

struct Command {
  uint32_t next;            // in its list, or the next free one
  uint32_t earlier, later;  // in flight
  bool flying, ours;        // `ours`: the event
  bool listed;              // it may be executed again
  bool overlapped;          // in flight for several executions at once: the event has the time of any of them
  uint64_t node;            // of a graph's command: its row of graph_nodes
  Handle event, context;    // event 0: it has no time stamps
  Device* device;
  uint32_t recording, thread, stack, stream;
  torch_autograd::Point point;
  uint64_t correlation, appended_ns;
  uint32_t name;
  Work work;
};

// All with the lock held, but for `collect` and `in_flight`. Commands are counted from 1; 0 is none.
Command& at(uint32_t number) noexcept;
// nullptr: there are too many.
Command* make() noexcept;
void free_command(Command& command) noexcept;
// At the end of a list or a graph.
void push(uint32_t& first, uint32_t& last, Command& command) noexcept;
// It goes to the device.
void fly(Command& command) noexcept;
// It will be executed once more. Where it is not done, we can read only the last of its times, once all are over.
void execute_again(const Api& api, Command& command) noexcept;
// Of the recording that goes on; each has rows of its own.
uint32_t present_recording() noexcept;

// Writes the rows of completed commands. SOME, for polls, looks only at the oldest commands in flight: a program may poll a million times.
enum class Effort { ALL, SOME };
void collect(const Api& api, Effort effort) noexcept;
bool in_flight() noexcept;
// With the lock held: all commands of a queue or an immediate list, or of a device, are done.
void all_done(uint32_t stream) noexcept;
void all_done_on(Handle device) noexcept;

// With the lock held. Reads the time stamps of the program's event, which would be lost otherwise.
// False: the command that signals it is not done.
bool finish_event(const Api& api, Object& event) noexcept;
// Of a list or a graph.
void forget_commands(const Api& api, uint32_t& first, uint32_t& last) noexcept;
void forget_context(const Api& api, Handle context) noexcept;

}  // namespace aiflame::level_zero
