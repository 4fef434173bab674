// Writes the rows of an enqueued command: `launches` when it is enqueued, `kernels` or `copies` when it has completed.
//
// A command's time stamps can be read once its event is complete, which the event's callback reports (on a thread of the runtime). A program may end
// right after its wait returned, before the runtime has called back, so waits collect completed commands as well.
#pragma once
#include "hooks/opencl/api.hpp"
#include "unwind/frames.hpp"

#include "aiflame_schema.hpp"

namespace aiflame::opencl {

// The work of a command. `kernel`: its object for a kernel, nullptr for a copy.
struct Work {
  Kernel kernel;
  schema::CopyKind copy;
  uint64_t bytes;
  bool blocking;  // the enqueueing call returns when the command has completed
  uint32_t grid[3], block[3];
};

// The moment before a command is enqueued.
struct Launching {
  uint32_t thread, stack;
  uint32_t recording;
  uint64_t begin_ns;
};

Launching launching(const Registers& caller) noexcept;

// The command has been enqueued. Takes over one reference to `event`.
void launched(const Launching& launch, Queue queue, const Work& work, Event event) noexcept;

// Writes the rows of completed commands of one queue, or of all (nullptr).
void collect(Queue queue) noexcept;

}  // namespace aiflame::opencl
