// Preloaded into a program, compares our native stacks with glibc's backtrace(): inside the program's memory allocations, deep in every library that
// allocates, and in a signal handler at any instruction. Driven from Python by ctypes.
#include "../innermost_first.hpp"
#include "unwind/jit_code.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sys/time.h>
#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>

using namespace aiflame;

extern "C" void* __libc_malloc(size_t) noexcept;

namespace {

constexpr int kRoom = 512;

// Mirrored by tests/collector/unwind/unwind_workloads.py.
struct Tally {
  uint64_t stacks, equal;             // compared with glibc's; equal in every frame
  uint64_t frames, agreed;            // glibc's frames; those that ours has at the same place
  uint64_t generated, outermost;      // stacks through code without unwind information; those that reach the thread's first frame
  uint64_t unanswered;                // glibc's unwinder fell there
  uint64_t parted_at[8], lost_at[8];  // some last frames in common; some last frames of stacks that end too early
};
Tally in_calls, in_handler;

struct Mine {
  NativeUnwinder* unwinder;
  uint64_t high, outermost;
  bool busy;
  uint32_t calls;
  NativeFrame frames[kRoom];
  void* reference[kRoom];
};
__attribute__((tls_model("initial-exec"))) thread_local Mine* mine;
__attribute__((tls_model("initial-exec"))) thread_local bool making;

__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf fallen;
__attribute__((tls_model("initial-exec"))) thread_local volatile bool may_fall;

bool sampling = false;
uint32_t every = 1;

Mine* self() {
  if (mine || making) return mine;
  making = true;
  auto* made = static_cast<Mine*>(calloc(1, sizeof(Mine)));
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  made->high = reinterpret_cast<uint64_t>(low) + size;
  made->unwinder = NativeUnwinder::create();
  mine = made;
  making = false;
  return mine;
}

bool is_generated(const NativeFrame* frames, size_t count) {
  for (size_t at = 0; at < count; at++) {
    auto kind = static_cast<schema::FrameKind>(frames[at].word >> 60);
    if (kind != schema::FrameKind::NATIVE) return true;
  }
  return false;
}

bool ended(Ending ending) { return ending == Ending::OUTERMOST || ending == Ending::APPROXIMATE; }

// glibc's list may end with the 0 that the outermost frame returns to.
int reference_stack(void** out) {
  int count = backtrace(out, kRoom);
  while (count > 1 && reinterpret_cast<uint64_t>(out[count - 1]) < 4096) count--;
  return count;
}

// libgcc's unwinder takes a frame without unwind information for a signal frame and reads the code at its address, valid or not: this happens where
// a tick interrupts an exception on its way (x86_64_fallback_frame_state). -1: it crashed.
int reference_stack_of_a_handler(void** out) {
  if (sigsetjmp(fallen, 1)) return -1;
  may_fall = true;
  int count = reference_stack(out);
  may_fall = false;
  return count;
}

void on_fall(int signal) {
  if (may_fall) {
    may_fall = false;
    siglongjmp(fallen, 1);
  }
  std::signal(signal, SIG_DFL);  // the program's own: met again at the same instruction
}

void compare(Tally& tally, const NativeFrame* ours, size_t our_count, void** theirs, size_t their_count, Ending ending) {
  if (is_generated(ours, our_count)) {
    tally.generated++;
    bool outermost = ended(ending) && ours[our_count - 1].pc == mine->outermost;
    tally.outermost += outermost;
    if (!outermost) tally.lost_at[tally.generated % 8] = ours[our_count - 1].pc;
    return;
  }
  size_t same = 0;
  while (same < our_count && same < their_count && ours[same].pc == reinterpret_cast<uint64_t>(theirs[same])) same++;
  bool equal = same == their_count && same == our_count;
  tally.stacks++;
  tally.equal += equal;
  tally.frames += their_count ? their_count : our_count;
  tally.agreed += same;
  if (!equal) tally.parted_at[tally.stacks % 8] = same ? ours[same - 1].pc : ours[0].pc;
}

__attribute__((noinline)) void sample_call() {
  Mine* thread = self();
  if (!thread || thread->busy || ++thread->calls % every) return;
  thread->busy = true;
  Ending ending;
  size_t count = innermost_first(*thread->unwinder, here(), thread->high, thread->frames, kRoom, &ending);
  int reference = reference_stack(thread->reference);
  thread->outermost = reinterpret_cast<uint64_t>(thread->reference[reference - 1]);
  // Both begin in this function, at different instructions.
  compare(in_calls, thread->frames + 1, count - 1, thread->reference + 1, static_cast<size_t>(reference) - 1, ending);
  thread->busy = false;
}

void on_tick(int, siginfo_t*, void* context) {
  int saved = errno;
  Mine* thread = mine;
  if (thread && thread->outermost && !thread->busy && sampling) {
    thread->busy = true;
    const greg_t* all = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    Registers from{static_cast<uint64_t>(all[REG_RIP]), static_cast<uint64_t>(all[REG_RSP]), static_cast<uint64_t>(all[REG_RBP]), all, true};
    Ending ending;
    size_t count = innermost_first(*thread->unwinder, from, thread->high, thread->frames, kRoom, &ending);
    // glibc is not asked where rules do not lead: it may fall, as in libgcc's last instructions before an exception's handler.
    int reference = ending == Ending::OUTERMOST ? reference_stack_of_a_handler(thread->reference) : 0, skipped = 0;
    while (skipped < reference && reinterpret_cast<uint64_t>(thread->reference[skipped]) != from.pc) skipped++;
    if (reference < 0) {
      in_handler.unanswered++;
    } else {
      compare(in_handler, thread->frames, count, thread->reference + skipped, static_cast<size_t>(reference - skipped), ending);
    }
    thread->busy = false;
  }
  errno = saved;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Every `period`th allocation of a thread from now on; a tick every `tick_us` of the process's CPU time, 0: none.
EXPORT void probe_start(uint32_t period, uint32_t tick_us) {
  void* warm[4];
  backtrace(warm, 4);
  self();
  every = period;
  sampling = true;
  struct sigaction action{};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  std::signal(SIGSEGV, on_fall);
  itimerval interval{{0, static_cast<suseconds_t>(tick_us)}, {0, static_cast<suseconds_t>(tick_us)}};
  setitimer(ITIMER_PROF, &interval, nullptr);
}

EXPORT void probe_stop(Tally* calls, Tally* handler) {
  itimerval none{};
  setitimer(ITIMER_PROF, &none, nullptr);
  sampling = false;
  *calls = in_calls;
  *handler = in_handler;
  in_calls = in_handler = {};
}

// The tallies so far.
EXPORT void probe_peek(Tally* calls, Tally* handler) {
  *calls = in_calls;
  *handler = in_handler;
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  static auto* real = reinterpret_cast<int (*)(void**, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (sampling) sample_call();
  return real(out, alignment, size);
}

EXPORT void* malloc(size_t size) noexcept {
  if (sampling) sample_call();
  return __libc_malloc(size);
}

// oneDNN's compiler finds us by INTEL_JIT_PROFILER64; see native/hooks/jit/jit_profiling.cpp.
EXPORT unsigned Initialize() { return 1; }
EXPORT int NotifyEvent(unsigned event, void* data) {
  struct Method {
    unsigned id;
    const char* name;
    void* address;
    unsigned size;
  };
  auto* method = static_cast<const Method*>(data);
  if (event == 21 || event == 13 || event == 22) jit::add(method->name, "", reinterpret_cast<uint64_t>(method->address), method->size, nullptr, 0);
  return 1;
}
