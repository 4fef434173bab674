// Preloaded into a program, times stacks where the program asks for memory: ours, glibc's backtrace() and libunwind's
// unw_backtrace(), one after the other at the same place. Driven from Python by ctypes.
#include "../innermost_first.hpp"
#include "base/clock.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>

using namespace aiflame;

namespace {

constexpr int kRoom = 512;
constexpr int kPeers = 6;
constexpr uint32_t kSamples = 1 << 16;

// Mirrored by benchmarks/recording/unwind.py. NEXT: the walk before was at the program's last allocation; SAME: here; RULES: nothing of the
// last walk is used; COLD: a new unwinder.
enum Peer { NEXT, SAME, RULES, COLD, GLIBC, LIBUNWIND };
struct Sample {
  uint32_t frames, ns[kPeers];
};
Sample samples[kSamples];
uint32_t sample_count;

struct Mine {
  NativeUnwinder *chain, *rules;
  uint64_t high;
  bool busy;
  NativeFrame frames[kRoom];
  void* addresses[kRoom];
};
Mine* mine;  // of the thread that started
pthread_t owner;
bool sampling;
int (*unw_backtrace)(void**, int);
uint32_t least_frames;

template <class Work>
uint32_t time_of(Work work) {
  uint64_t begin = now_ns();
  work();
  return static_cast<uint32_t>(now_ns() - begin);
}

__attribute__((noinline)) size_t walk(NativeUnwinder* unwinder) {
  Ending ending;
  return innermost_first(*unwinder, here(), mine->high, mine->frames, kRoom, &ending);
}

// Makes the unwinder forget its last stack, but not its rules: it belongs to another thread's memory.
void forget_stack(NativeUnwinder* unwinder) {
  Ending ending;
  uint64_t words[8] = {};
  Registers nowhere{.pc = 4096, .sp = reinterpret_cast<uint64_t>(words), .bp = 0, .all = nullptr, .exact = true};
  innermost_first(*unwinder, nowhere, reinterpret_cast<uint64_t>(words + 8), mine->frames, kRoom, &ending);
}

__attribute__((noinline)) void sample() {
  if (mine->busy || sample_count == kSamples || !pthread_equal(pthread_self(), owner)) return;
  mine->busy = true;
  size_t frames = 0;
  uint32_t next = time_of([&frames] { frames = walk(mine->chain); });
  if (frames >= least_frames) {
    Sample& out = samples[sample_count++];
    out.frames = static_cast<uint32_t>(frames);
    out.ns[NEXT] = next;
    out.ns[SAME] = time_of([] { walk(mine->chain); });
    walk(mine->rules);
    forget_stack(mine->rules);
    out.ns[RULES] = time_of([] { walk(mine->rules); });
    NativeUnwinder* fresh = NativeUnwinder::create();
    out.ns[COLD] = sample_count % 16 ? 0 : time_of([fresh] { walk(fresh); });
    NativeUnwinder::destroy(fresh);
    backtrace(mine->addresses, kRoom);
    out.ns[GLIBC] = time_of([] { backtrace(mine->addresses, kRoom); });
    if (unw_backtrace) {
      unw_backtrace(mine->addresses, kRoom);
      out.ns[LIBUNWIND] = time_of([] { unw_backtrace(mine->addresses, kRoom); });
    }
  }
  mine->busy = false;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Stacks of at least `frames` frames, on the calling thread. False: libunwind is not there.
EXPORT bool bench_start(uint32_t frames) {
  static Mine storage;
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  storage.high = reinterpret_cast<uint64_t>(low) + size;
  storage.chain = NativeUnwinder::create();
  storage.rules = NativeUnwinder::create();
  mine = &storage;
  owner = pthread_self();
  least_frames = frames;
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library) unw_backtrace = reinterpret_cast<int (*)(void**, int)>(dlsym(library, "unw_backtrace"));
  backtrace(storage.addresses, 4);
  sampling = true;
  return unw_backtrace != nullptr;
}

// The samples so far.
EXPORT uint32_t bench_stop(const Sample** out) {
  sampling = false;
  *out = samples;
  return sample_count;
}

// The time of an empty measurement.
EXPORT uint32_t bench_clock_ns() {
  uint32_t least = ~0u;
  for (int at = 0; at < 1000; at++) {
    uint32_t ns = time_of([] {});
    least = ns < least ? ns : least;
  }
  return least;
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  static auto* real = reinterpret_cast<int (*)(void**, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (sampling) sample();
  return real(out, alignment, size);
}
