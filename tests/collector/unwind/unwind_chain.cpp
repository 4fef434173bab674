// Walks that reuse the last stack against walks that know nothing, and both against glibc's backtrace(), at the leaves of random
// call trees, in destructors while exceptions and pthread_exit() unwind, and in a library without a search table.
//
//   unwind_chain SEED LEAVES [LIBRARY]
#include "innermost_first.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>

using namespace aiflame;

namespace {

constexpr int kRoom = 512;

struct Counts {
  uint64_t stacks = 0, same_as_fresh = 0, same_as_glibc = 0, frames = 0;
};
struct Threaded {
  NativeUnwinder* chained = NativeUnwinder::create();
  uint64_t high = 0;
  Counts counts;
  std::mt19937 random;
  uint64_t leaves = 0;
};
thread_local Threaded* mine;

bool equal(const NativeFrame* left, const NativeFrame* right, size_t count) {
  for (size_t at = 1; at < count; at++)
    if (left[at].pc != right[at].pc || left[at].sp != right[at].sp || left[at].cfa != right[at].cfa || left[at].word != right[at].word) return false;
  return true;
}

__attribute__((noinline)) void compare() {
  static thread_local NativeFrame chained[kRoom], fresh[kRoom];
  static thread_local void* reference[kRoom];
  Registers from = here();
  Ending ending, fresh_ending;
  size_t count = innermost_first(*mine->chained, from, mine->high, chained, kRoom, &ending);
  NativeUnwinder* unwinder = NativeUnwinder::create();
  size_t fresh_count = innermost_first(*unwinder, from, mine->high, fresh, kRoom, &fresh_ending);
  NativeUnwinder::destroy(unwinder);
  auto glibc_count = static_cast<size_t>(backtrace(reference, kRoom));
  while (glibc_count > 1 && reinterpret_cast<uint64_t>(reference[glibc_count - 1]) < 4096) glibc_count--;
  bool as_glibc = glibc_count == count && ending == Ending::OUTERMOST;
  for (size_t at = 1; as_glibc && at < count; at++) as_glibc = chained[at].pc == reinterpret_cast<uint64_t>(reference[at]);
  mine->counts.stacks++;
  mine->counts.frames += count;
  mine->counts.same_as_fresh += count == fresh_count && ending == fresh_ending && equal(chained, fresh, count);
  mine->counts.same_as_glibc += as_glibc;
}

struct Watched {
  ~Watched() { compare(); }
};

// Frames of different sizes and kinds: with a frame pointer (alloca), without, realigned.
template <int Kind>
__attribute__((noinline)) int branch(int depth);

int descend(int depth) {
  switch (mine->random() % 4) {
    case 0:
      return branch<0>(depth);
    case 1:
      return branch<1>(depth);
    case 2:
      return branch<2>(depth);
    default:
      return branch<3>(depth);
  }
}

template <int Kind>
int branch(int depth) {
  volatile char room[16 + 40 * Kind];
  room[0] = static_cast<char>(depth);
  if constexpr (Kind == 1) {
    auto* variable = static_cast<volatile char*>(__builtin_alloca(16 + mine->random() % 512));
    variable[0] = 1;
  }
  if constexpr (Kind == 2) {
    alignas(64) volatile char aligned[128];
    aligned[0] = 1;
  }
  if (depth == 0 || mine->random() % 8 == 0) {
    mine->leaves++;
    compare();
    return room[0];
  }
  int sum = 0;
  for (auto children = 1 + mine->random() % 3; children > 0; children--) sum += descend(depth - 1);
  return sum + room[0];
}

__attribute__((noinline)) void throws(int depth) {
  Watched watched;
  if (depth == 0) throw std::runtime_error("thrown");
  throws(depth - 1);
}

__attribute__((noinline)) void leaves_thread(int depth) {
  Watched watched;
  if (depth == 0) pthread_exit(nullptr);
  leaves_thread(depth - 1);
}

void enter_thread(unsigned seed) {
  mine = new Threaded;
  mine->random.seed(seed);
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  mine->high = reinterpret_cast<uint64_t>(low) + size;
}

Counts of_thread;

void* thread(void* seed) {
  enter_thread(static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed)));
  pthread_cleanup_push([](void*) { of_thread = mine->counts; }, nullptr);
  leaves_thread(6);
  pthread_cleanup_pop(1);
  return nullptr;
}

int through_library(void*) {
  static NativeFrame frames[kRoom];
  Ending ending;
  size_t count = innermost_first(*mine->chained, here(), mine->high, frames, kRoom, &ending);
  return ending == Ending::OUTERMOST ? static_cast<int>(count) : 0;
}

void print(const char* name, const Counts& counts, const char* after) {
  printf("\"%s\": {\"stacks\": %lu, \"same_as_fresh\": %lu, \"same_as_glibc\": %lu, \"frames\": %lu}%s", name, counts.stacks, counts.same_as_fresh,
         counts.same_as_glibc, counts.frames, after);
}

}  // namespace

int main(int count, char** arguments) {
  auto seed = static_cast<unsigned>(atoi(arguments[1]));
  auto leaves = static_cast<uint64_t>(atoll(arguments[2]));
  enter_thread(seed);
  while (mine->leaves < leaves) descend(12);
  Counts calls = mine->counts;
  mine->counts = {};
  for (int depth = 1; depth < 20; depth++) {
    try {
      throws(depth);
    } catch (const std::exception&) {
      compare();
    }
  }
  pthread_t other;
  pthread_create(&other, nullptr, thread, reinterpret_cast<void*>(uintptr_t{seed}));
  pthread_join(other, nullptr);
  int frames = -1;
  if (count > 3) {
    void* library = dlopen(arguments[3], RTLD_NOW);
    auto* call_back = reinterpret_cast<int (*)(int (*)(void*), void*, int)>(dlsym(library, "call_back"));
    frames = call_back(through_library, nullptr, 9);
  }
  printf("{");
  print("calls", calls, ", ");
  print("exceptions", mine->counts, ", ");
  print("thread_exit", of_thread, ", ");
  printf("\"library_frames\": %d}\n", frames);
  return 0;
}
