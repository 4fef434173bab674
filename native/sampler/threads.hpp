// The state of each thread of the process.
#pragma once
#include "sampler/capture_cache.hpp"
#include "sampler/tick_stack.hpp"
#include "spool/spool.hpp"
#include "unwind/frames.hpp"
#include "unwind/native_unwinder.hpp"
#include "unwind/python_frames.hpp"

#include <ucontext.h>
#include <atomic>
#include <csignal>
#include <cstdint>

namespace aiflame {

inline constexpr size_t kMaxFrames = NativeUnwinder::kMostFrames;

// The last stack of a thread, outermost first: frames that the next one shares with it cost almost nothing.
struct LastStack {
  static constexpr size_t kMost = 2 * kMaxFrames + 4;
  // How its words were merged from frames of both kinds: before each native frame, the number of words written and of Python frames passed.
  struct Place {
    uint16_t words, python;
  };

  uint32_t count;        // 0: no stack is stored here
  uint32_t known_nodes;  // number of outermost words whose nodes of the trie are in `nodes`
  uint32_t generation;   // of the trie
  uint32_t base;         // Thread::launched_by and launched_at of that time
  uint64_t base_at;
  FrameWord mark;  // a frame of our own below all others, 0: none
  uint32_t native_count, python_count;
  bool python_turn;  // which half of `python` has its frames
  FrameWord words[kMost];
  uint64_t hashes[kMost];  // of the words up to each
  uint32_t nodes[kMost];
  Place places[kMaxFrames + 1];
  PythonFrame python[2][kMaxFrames];  // innermost first; the other half is for the next one
};

// Consecutive autograd nodes that a thread has made in calls of one module.
struct NodeRun {
  uint32_t layer;  // 0: none
  uint32_t sequence_begin, sequence_end;
  uint64_t begin_ns, end_ns;
  uint16_t autograd;
};

// Ticks that take more than a share of the time between ticks, and the ticks that were skipped to let the program continue.
struct SlowTicks {
  uint64_t quiet_until_ns;
  bool last;           // the last tick was slow
  uint32_t passed[2];  // by clock: skipped ticks, which the next sample stands for, too
};

// The wall-clock ticks of a thread that stays in one wait: they become ever rarer, and each stands for as many periods as have passed.
struct LongWait {
  schema::CpuSample sample{};  // of the last tick
  uint32_t ticks = 0;          // consecutive ticks in that wait
  uint32_t factor = 1;         // periods from one tick to the next
};

// Made once, then passed from an ended thread to a new one: never unmapped, so a stale pointer reads old data instead of causing a fault.
struct Thread {
  std::atomic<uint32_t> tid;  // 0: free
  uint32_t slot;              // its place in the table of threads
  uint32_t row;               // of the `threads` table; 0 while it is not recorded
  std::atomic<int> uses;      // see threads::Use
  volatile uint64_t busy;     // stack address of the capture under way, 0: none. A tick in it must not start another
  uint64_t stack_low, stack_high;
  NativeUnwinder* unwinder;
  CaptureCache* known;              // mapped when a hook first captures; stays
  uint32_t launched_by;             // stack under which this thread's work belongs (an OpenMP region's), 0: its own
  std::atomic<uint32_t> launching;  // 1: it is inside a launch of the CUDA driver (hooks/cuda/gate.hpp)
  // The fields that a launch needs are above, in one cache line, and here in the next.
  spool::Rows<schema::Launch> launches;
  spool::Rows<schema::PoolBlock> pool_blocks;
  uint64_t launched_at;                        // with launched_by: frames at or above this stack address are the runtime's and are left out
  uint64_t launched_point;                     // with launched_by: where torch's autograd was when the region was launched
  const Thread* itself;                        // distinguishes a Thread from any other memory
  AlternateStack theirs;                       // the program's alternate stack, while the kernel has ours
  uint64_t block;                              // its thread-local memory, 0: none of its own (see thread_block)
  bool settled;                                // it has a stack for its ticks, and so may have timers
  bool ticks_apart;                            // the kernel has our alternate stack for it
  bool foreign;                                // the tick under way cannot reach its thread-local memory
  uint32_t off_stack;                          // captures that began outside of its stack
  bool adopted;                                // it did not report its begin, so it will not report its end
  bool omp_worker;                             // has run an OpenMP region: outside of regions it waits for the next
  bool omp_waiting;                            // its runtime reports that it waits …
  uint64_t wait_low, wait_high;                // … whenever its pc is here: code elsewhere (a task) is work
  std::atomic<int32_t> cpu_timer, wall_timer;  // kernel timer ids, -1: none
  uint64_t cpu_start_ns;                       // its CPU clock when recording began
  uint64_t cpu_due_ns;                         // its CPU clock at its next tick on that clock; 0: there will be none
  bool ticked;                                 // on that clock, in this recording
  uint64_t routine;                            // its start routine, 0: unknown
  uint64_t cpu_seen_ns;                        // its CPU clock at the last wall-clock tick
  std::atomic<uint64_t> turn_ns;               // its first CPU tick since it last waited for events, 0: none; see loop_turns
  uint64_t cpu_alive_ns;                       // its CPU clock when an adopted one was last seen alive
  SlowTicks slow;
  LongWait long_wait;
  NodeRun nodes_made;
  LastStack last;
  python::PlacesMet met;
};

namespace threads {

// The calling thread's state, made at its first use. Not for our handlers. nullptr if there is no memory, or the thread is ending.
Thread* self() noexcept;
// Like self(), but never makes one.
Thread* self_if_known() noexcept;
// The state of the thread that a signal of ours interrupted; nullptr if the thread has none. For handlers.
Thread* interrupted(ucontext_t* context) noexcept;

// True if our handler, and code that it calls, may touch thread-local memory. `context`: from the kernel.
bool may_use_locals(const ucontext_t* context) noexcept;

// A thread is being made that will call begin() itself, with its creator's stack / it has called it, or was not made after all.
void expect() noexcept;
void expected() noexcept;

// A control::Use for a thread that takes one at every launch: it writes only memory of its own thread, and has no memory barrier.
class Use {
 public:
  explicit Use(Thread& calling) noexcept : thread_(calling) {
    add(1);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // control::await_users() provides the processor's barrier
  }
  ~Use() { add(-1); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  // A handler that comes between the two leaves the number unchanged. A jump out of it leaves the number too high: code that waits for it gives
  // up.
  void add(int one) noexcept { thread_.uses.store(thread_.uses.load(std::memory_order_relaxed) + one, std::memory_order_release); }

  Thread& thread_;
};
bool any_uses() noexcept;
// True if a thread other than the calling one is inside a launch.
bool any_launching() noexcept;

// The calling thread is about to run its start routine / has left it.
struct Beginning {
  uint32_t creator_stack;
  const void* routine;
  uint64_t stack_bytes;
};
void begin(const Beginning& beginning) noexcept;
void end() noexcept;

// Gives every thread of the process a row and timers: at the start of a recording, and after an exec that failed. Removes the remains of an earlier
// recording first.
void adopt_all() noexcept;

// Called by a tick from time to time. Gives threads whose creation we did not notice a row and, once they wait, a greeting; takes the timers of such
// threads that have ended; requests timers again that the kernel refused.
void tend() noexcept;

// Runs in the handler of a thread that got a greeting while it waited, and gives the thread a stack for its ticks, and its timers. That is safe: code
// that waits keeps no data below its stack pointer.
void greeted(ucontext_t* context, const siginfo_t* info) noexcept;

// Recording stops: deletes all timers and writes the threads' end rows. Until adopt_all() no thread gets a row.
void retire_all() noexcept;

// Stops the ticks of all threads / restarts them. Also holds for new threads, until resume_all().
void pause_all() noexcept;
void resume_all() noexcept;

// In the child of a fork, which has one thread, without timers.
void after_fork() noexcept;

}  // namespace threads

}  // namespace aiflame
