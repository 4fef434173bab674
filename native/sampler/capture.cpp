// One stack of the calling thread: native and Python frames merged by stack address, as a node of the trie.
#include "base/sys.hpp"
#include "sampler/signals.hpp"
#include "sampler/stack_bounds.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/stack_trie.hpp"

namespace aiflame {

namespace {

// A frame of our own; its row is written when it is first needed.
class Mark {
 public:
  explicit constexpr Mark(std::string_view text) noexcept : text_(text) {}

  FrameWord word() noexcept {
    FrameWord word = word_.load(std::memory_order_relaxed);
    if (word) return word;
    uint32_t row = spool::append(schema::MarkRecord{.text = spool::text(text_)});
    word = frame_word(schema::FrameKind::MARK, 0, row);
    word_.store(word, std::memory_order_relaxed);
    return word;
  }
  void forget() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  std::string_view text_;
  std::atomic<FrameWord> word_{0};
};

constinit Mark openmp_wait("[OpenMP wait]"), incomplete("[incomplete stack]"), truncated("[stack truncated]"), other_stack("[on another stack]"),
    own("[aiflame]");

// Merges while walking outwards: each group of Python frames (up to its entry frame) takes the place of the native frame that
// evaluates it.
class Merge {
 public:
  Merge(const PythonFrame* python, size_t count, FrameWord* out, size_t room) noexcept
      : python_(python), end_(python + count), out_(out), room_(room) {}

  void native(const NativeFrame& frame) noexcept {
    // A group whose evaluator we have already passed was hidden by a frame that could not be unwound: it goes here.
    while (python_ < end_ && python_->evaluator && python_->evaluator < frame.sp) group();
    bool evaluates = python_ < end_ && python_->evaluator >= frame.sp && python_->evaluator < frame.cfa;
    evaluates ? group() : put(frame.word);
  }

  // What no native frame claimed: the native walk ended early.
  size_t finish() noexcept {
    while (python_ < end_) group();
    return count_;
  }

  size_t count() const noexcept { return count_; }
  bool python_left() const noexcept { return python_ < end_; }

 private:
  void group() noexcept {
    while (python_ < end_) {
      put(python_->word);
      if (python_++->entry) break;
    }
  }

  void put(FrameWord word) noexcept {
    if (count_ < room_) out_[count_++] = word;
  }

  const PythonFrame *python_, *end_;
  FrameWord* out_;
  size_t room_, count_ = 0;
};

// The trie node of `merged` (innermost first), reusing what the thread's last capture shares with it from the outside in.
uint32_t intern(Thread& thread, const FrameWord* merged, size_t count) noexcept {
  if (thread.base != thread.launched_by) {
    thread.base = thread.launched_by;
    thread.depth = 0;
  }
  size_t same = 0;
  while (same < count && same < thread.depth && thread.frames[same] == merged[count - 1 - same]) same++;
  uint32_t node = same ? thread.nodes[same - 1] : thread.base;
  thread.depth = static_cast<uint32_t>(same);
  for (size_t at = same; at < count; at++) {
    node = trie::node(node, merged[count - 1 - at]);
    if (!node) return 0;
    if (at < kMaxFrames) {
      thread.frames[at] = merged[count - 1 - at];
      thread.nodes[at] = node;
      thread.depth = static_cast<uint32_t>(at) + 1;
    }
  }
  return node;
}

uint64_t hash_of(const FrameWord* merged, size_t count, uint64_t seed) noexcept {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
  uint64_t lanes[4] = {seed, ~seed, count, kFactor};
  for (size_t at = 0; at < count; at++) {
    uint64_t& lane = lanes[at % 4];
    lane = (lane ^ merged[at]) * kFactor;
    lane ^= lane >> 29;
  }
  uint64_t hash = lanes[0];
  for (int lane = 1; lane < 4; lane++) {
    hash = (hash ^ lanes[lane]) * kFactor;
    hash ^= hash >> 32;
  }
  return hash;
}

// As intern(), for a stack that was probably met before: a program launches the same work from the same places. A search of the trie
// misses the processor's caches at every frame; this, once.
uint32_t intern_again(Thread& thread, const FrameWord* merged, size_t count) noexcept {
  uint64_t hash = hash_of(merged, count, static_cast<uint64_t>(trie::generation()) << 32 | thread.launched_by);
  KnownStack& known = thread.known[hash % kKnownStacks];
  if (known.hash == hash && known.node) return known.node;
  uint32_t node = intern(thread, merged, count);
  known = {hash, node};
  return node;
}

bool is_on_stack(const Thread& thread, uint64_t address) noexcept { return address >= thread.stack_low && address < thread.stack_high; }

// What was known of the thread's stack may be wrong (another limit for the main thread's, say). Asked ever more rarely: it costs a
// reading of the map, and a thread may well stay on coroutines' stacks.
bool look_again(Thread& thread, uint64_t sp) noexcept {
  static thread_local uint32_t missed;
  missed++;
  if (missed & (missed - 1)) return false;
  StackBounds bounds = stack_bounds_around(sp, thread.tid.load(std::memory_order_relaxed) == sys::process_id());
  if (sp < bounds.low || sp >= bounds.high) return false;
  thread.stack_low = bounds.low;
  thread.stack_high = bounds.high;
  return true;
}

// The program's handler of a fault may have left a capture by siglongjmp(): what runs above it on the same stack says so.
bool is_left(const Thread& thread, uint64_t sp) noexcept { return is_on_stack(thread, thread.busy) && is_on_stack(thread, sp) && sp > thread.busy; }

uint32_t merged_stack(Thread& thread, const Registers& from) noexcept {
  FrameWord* merged = thread.merged;
  size_t room = 2 * kMaxFrames - 2, count = 0;
  if (from.all && thread.omp_waiting && from.pc >= thread.wait_low && from.pc < thread.wait_high) merged[count++] = openmp_wait.word();
  size_t python_count = python::walk(thread.python, kMaxFrames);
  Merge merge(thread.python, python_count, merged + count, room - count);
  Ending ending = Ending::LOST;
  bool cut = false;
  bool own_stack = thread.unwinder && (is_on_stack(thread, from.sp) || look_again(thread, from.sp));
  size_t native_count = own_stack ? thread.unwinder->unwind(from, thread.stack_high, thread.native, kMaxFrames, &ending) : 0;
  for (size_t at = 0; at < native_count; at++) {
    if (thread.launched_by && thread.native[at].sp >= thread.launched_at) {
      ending = Ending::OUTERMOST;
      cut = true;
      break;
    }
    merge.native(thread.native[at]);
  }
  bool python_closes = merge.python_left();
  // In the thread that launched a region, the Python frames around the cut are in the region's own stack already.
  count += cut ? merge.count() : merge.finish();
  // Says so where the outermost frame is not the thread's first: a stack never pretends to be whole.
  if (!own_stack) {
    merged[count++] = other_stack.word();
  } else if (ending == Ending::FULL || python_count == kMaxFrames) {
    merged[count++] = truncated.word();
  } else if (ending != Ending::OUTERMOST && ending != Ending::APPROXIMATE && !python_closes) {
    merged[count++] = incomplete.word();
  }
  return from.exact ? intern(thread, merged, count) : intern_again(thread, merged, count);
}

}  // namespace

void forget_marks() noexcept {
  for (Mark* mark : {&openmp_wait, &incomplete, &truncated, &other_stack, &own}) mark->forget();
}

uint32_t capture(Thread& thread, const Registers& from) noexcept {
  control::Use use;
  if (!control::recording()) return 0;
  if (thread.busy && !is_left(thread, from.sp)) return trie::node(0, own.word());
  signals::FaultsOpen faults;
  thread.busy = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  uint32_t node = merged_stack(thread, from);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.busy = 0;
  return node;
}

}  // namespace aiflame
