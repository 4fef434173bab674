// Stacks that are known at a glance are those that a walk finds: threads come to the same places again and again, in an order that changes,
// while another thread invalidates everything that was cached.
#include "sampler/capture_cache.hpp"

#include "check.hpp"
#include "recording.hpp"
#include "sampler/threads.hpp"
#include "unwind/generation.hpp"
#include "unwind/modules.hpp"
#include "unwind/stack_trie.hpp"

#include <pthread.h>
#include <random>

using namespace aiflame;
using sanitized::check;

namespace {

constexpr unsigned kThreads = 3;
constexpr uint32_t kVisits = 2500;

// The node of the words alone.
uint32_t intern(LastStack& last) noexcept {
  uint32_t node = 0;
  for (uint32_t at = 0; at < last.count; at++) node = trie::node(node, last.words[at]);
  return node;
}

// As capture() fills it in for a thread without Python.
void write_down(LastStack& last, const NativeStack& stack) {
  last.count = last.native_count = stack.count;
  uint64_t hash = 1;
  for (uint32_t at = 0; at < stack.count; at++) {
    last.words[at] = stack.words[at];
    last.hashes[at] = hash = (hash ^ stack.words[at]) * 0x9E3779B97F4A7C15u;
  }
}

struct Visitor {
  Thread& thread;
  NativeUnwinder* fresh = NativeUnwinder::create();
  std::mt19937 random;
  uint32_t looked_up = 0;
};
thread_local Visitor* mine;

[[gnu::noinline]] void capture() {
  control::Use use;
  Thread& thread = mine->thread;
  Registers from = here();
  from.exact = false;
  uint32_t node = capture_cache::lookup(thread, from);
  mine->looked_up += node != 0;
  if (!node) {
    write_down(thread.last, thread.unwinder->unwind(from, thread.stack_high));
    node = capture_cache::node_of(thread, from, intern);
  }
  auto expected = std::make_unique<LastStack>();
  write_down(*expected, mine->fresh->unwind(from, thread.stack_high));
  // From its innermost frame outwards.
  for (uint32_t at = expected->count; at > 0; at--) {
    const auto* record = spool::at<schema::StackNode>(node);
    if (!check(record && record->frame == expected->words[at - 1])) return;
    node = record->parent;
  }
  check(node == 0);
}

[[gnu::noinline]] int left(uint32_t path, int depth);
[[gnu::noinline]] int right(uint32_t path, int depth) {
  volatile char room[100] = {};
  return (depth ? left(path >> 1, depth - 1) : (capture(), 0)) + room[path % 100];
}
int left(uint32_t path, int depth) {
  if (depth == 0) return capture(), 0;
  return (path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1)) + 1;
}

void visit(unsigned number) {
  auto* thread = static_cast<Thread*>(sys::map_memory(sizeof(Thread)));
  thread->unwinder = NativeUnwinder::create();
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  thread->stack_low = reinterpret_cast<uint64_t>(low);
  thread->stack_high = thread->stack_low + size;
  Visitor visitor{*thread, NativeUnwinder::create(), std::mt19937(number)};
  mine = &visitor;
  // A round of places, as a training step has them; now and then another place.
  for (uint32_t at = 0; at < kVisits; at++) left(at % 40 == 7 ? static_cast<uint32_t>(visitor.random()) : at % 16, 12);
  check(visitor.looked_up > kVisits / 10);
  capture_cache::was_left(*thread);
  capture_cache::unmap(*thread);
}

}  // namespace

int main() {
  sanitized::Recording recording;
  modules::refresh();  // else the thread that comes while another one does it finds addresses of no module
  // A stack that was written down in vain a few times is not written down any more.
  std::thread forgetter([] {
    timespec moment{0, 10'000'000};
    for (int times = 0; times < 5; times++) nanosleep(&moment, nullptr), generation::end();
  });
  sanitized::in_threads(kThreads, visit);
  forgetter.join();
  return sanitized::status();
}
