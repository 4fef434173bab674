// Threads intern the same stacks at once: a stack has one node, except for twins that a race leaves unused; nodes lead back to their frames.
#include "check.hpp"
#include "recording.hpp"
#include "unwind/stack_trie.hpp"

using namespace aiflame;
using sanitized::check;

namespace {

constexpr unsigned kThreads = 6;
constexpr uint32_t kStacks = 3000, kDeep = 6;

FrameWord frame_of(uint32_t stack, uint32_t depth) { return 0x1000 + uint64_t{stack >> (kDeep - depth)} * 64 + depth; }

// From the outermost frame on: stacks share their beginnings.
uint32_t intern(uint32_t stack) {
  uint32_t node = 0;
  for (uint32_t depth = 0; depth < kDeep; depth++) {
    uint32_t inner = trie::node(node, frame_of(stack, depth));
    const auto* record = spool::at<schema::StackNode>(inner);
    if (!check(record && record->parent == node && record->frame == frame_of(stack, depth))) return 0;
    node = inner;
  }
  return node;
}

}  // namespace

int main() {
  sanitized::Recording recording;
  std::vector<std::atomic<uint32_t>> first(kStacks);
  for (int round = 0; round < 2; round++) {
    sanitized::in_threads(kThreads, [&](unsigned thread) {
      control::Use use;
      for (uint32_t at = 0; at < kStacks; at++) {
        uint32_t stack = (at + thread * 37) % kStacks, node = intern(stack), before = 0;
        if (!first[stack].compare_exchange_strong(before, node)) check(before == node);
      }
    });
    // Another recording begins with empty tables and an empty trie.
    spool::abandon();
    spool::open(now_ns());
    trie::clear(fresh_memory::Who::SAME_PROCESS);
    for (auto& node : first) node = 0;
  }
  return sanitized::status();
}
