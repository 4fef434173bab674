// What the callback of a launch does before the driver goes on: the capture of its stack, and the row of the launch; timed.
//
// The whole collector as a library for any Python process: the caller starts a recording by aiflame_start().
#include "base/clock.hpp"
#include "hooks/caller.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"

#include <cstring>

using namespace aiflame;

namespace {

struct Run {
  uint32_t* ns;
  uint32_t room, done;
  uint32_t frames;  // of the last stack
  uint64_t correlation;
  char* memory;  // walked over before each capture, so that nothing of the last one is in the nearest cache
  size_t bytes;
};

__attribute__((noinline)) void launch(Run& run) noexcept {
  for (size_t at = 0; at < run.bytes; at += 64) run.memory[at]++;
  uint64_t begin = now_ns();
  Thread* thread = threads::self();
  if (!thread) return;
  uint32_t stack = capture(*thread, hooks::caller());
  spool::append(schema::Launch{.thread = thread->row,
                               .stack = stack,
                               .api = static_cast<uint32_t>(schema::GpuApi::CUDA),
                               .begin_ns = begin,
                               .end_ns = begin,
                               .correlation = ++run.correlation});
  uint64_t end = now_ns();
  run.frames = thread->depth;
  if (stack && run.done < run.room) run.ns[run.done++] = static_cast<uint32_t>(end - begin);
}

// The innermost frames differ from launch to launch, as those of an operator's kernels do.
__attribute__((noinline)) void one(Run& run) noexcept {
  launch(run);
  asm volatile("");
}
__attribute__((noinline)) void other(Run& run) noexcept {
  one(run);
  asm volatile("");
}
__attribute__((noinline)) void third(Run& run) noexcept {
  other(run);
  asm volatile("");
}

__attribute__((noinline)) void descend(Run& run, uint32_t depth, uint32_t round) noexcept {
  volatile char locals[48];
  locals[depth % sizeof locals] = static_cast<char>(round);
  if (depth > 0)
    descend(run, depth - 1, round);
  else if (round % 3 == 0)
    one(run);
  else if (round % 3 == 1)
    other(run);
  else
    third(run);
  asm volatile("" ::: "memory");
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Captures `room` launches below `depth` native frames; returns the frames of the last stack. `ns` has what each took.
EXPORT uint32_t launch_captures(uint32_t depth, uint32_t room, uint32_t* ns, char* memory, size_t bytes) {
  Run run{.ns = ns, .room = room, .memory = memory, .bytes = bytes};
  for (uint32_t round = 0; round < room; round++) descend(run, depth, round);
  return run.done == room ? run.frames : 0;
}

// What an empty measurement shows.
EXPORT uint32_t launch_clock_ns() {
  uint64_t least = ~0ull;
  for (int at = 0; at < 1000; at++) {
    uint64_t begin = now_ns(), took = now_ns() - begin;
    least = took < least ? took : least;
  }
  return static_cast<uint32_t>(least);
}
