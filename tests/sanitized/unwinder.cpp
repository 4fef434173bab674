// The unwinder on this program's own stacks, against glibc's backtrace(): in frames of every kind, in destructors while an exception
// unwinds, in several threads at once. Walks reuse the stack of the walk before.
#include "check.hpp"
#include "innermost_first.hpp"
#include "recording.hpp"

#include <execinfo.h>
#include <pthread.h>
#include <random>
#include <stdexcept>

using namespace aiflame;
using sanitized::check;

namespace {

constexpr int kRoom = 256;

struct Walker {
  NativeUnwinder* unwinder = NativeUnwinder::create();
  uint64_t high = 0;
  std::mt19937 random;
  uint64_t stacks = 0;
  std::string text;

  explicit Walker(unsigned seed) : random(seed) {
    pthread_attr_t attributes;
    void* low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    high = reinterpret_cast<uint64_t>(low) + size;
  }
  ~Walker() { NativeUnwinder::destroy(unwinder); }
};
thread_local Walker* mine;

[[gnu::noinline]] void compare() {
  NativeFrame frames[kRoom];
  void* reference[kRoom];
  Ending ending;
  size_t count = innermost_first(*mine->unwinder, here(), mine->high, frames, kRoom, &ending);
  auto reference_count = static_cast<size_t>(backtrace(reference, kRoom));
  while (reference_count > 1 && reinterpret_cast<uint64_t>(reference[reference_count - 1]) < 4096) reference_count--;
  mine->stacks++;
  // A sanitizer's backtrace() adds a frame of its own inside.
  size_t inside = reference_count - count;
  if (!check(ending == Ending::OUTERMOST && inside <= 1)) return;
  for (size_t at = 1; at < count; at++) check(frames[at].pc == reinterpret_cast<uint64_t>(reference[inside + at]) && frames[at].sp < mine->high);
}

struct Watched {
  ~Watched() { compare(); }
};

[[gnu::noinline]] int descend(int depth);

// A frame pointer, as alloca() needs one.
[[gnu::noinline]] int variable(int depth) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(16 + mine->random() % 300));
  room[0] = 1;
  return descend(depth) + room[0];
}

// A realigned stack.
[[gnu::noinline]] int aligned(int depth) {
  alignas(128) volatile char room[256];
  room[depth] = 1;
  return descend(depth) + room[depth];
}

[[gnu::noinline]] int plain(int depth) { return descend(depth) + 1; }

int descend(int depth) {
  if (depth == 0) return compare(), 0;
  switch (mine->random() % 4) {
    case 0:
      return variable(depth - 1);
    case 1:
      return aligned(depth - 1);
    case 2:
      return plain(depth - 1) + (depth > 2 ? plain(depth / 2 - 1) : 0);
    default:
      return plain(depth - 1);
  }
}

[[gnu::noinline]] void throws(int depth) {
  Watched watched;
  if (depth == 0) throw std::runtime_error("thrown");
  throws(depth - 1);
  mine->text = "not reached";
}

void walk(unsigned seed) {
  Walker walker(seed);
  mine = &walker;
  while (walker.stacks < 400) descend(20);
  for (int depth = 1; depth < 10; depth++) {
    try {
      throws(depth);
    } catch (const std::exception&) {
      compare();
    }
  }
  check(walker.text.empty());
  mine = nullptr;
}

}  // namespace

int main() {
  walk(1);
  sanitized::in_threads(4, [](unsigned thread) { walk(thread + 2); });
  return sanitized::status();
}
