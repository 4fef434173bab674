#include "sampler/capture.hpp"

#include "base/sys.hpp"
#include "sampler/signals.hpp"
#include "sampler/stack_bounds.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/modules.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/stack_trie.hpp"

namespace aiflame {

namespace {

// A frame that we add; its row is written when it is first needed.
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
    own("[aiflame]"), unseen("[ended before a tick]");

// The Python frames of a stack by their number, outermost first.
class PythonStack {
 public:
  PythonStack(const PythonFrame* innermost, size_t count) noexcept : end_(innermost + count), count_(static_cast<uint32_t>(count)) {}
  const PythonFrame& operator[](uint32_t at) const noexcept { return *(end_ - 1 - at); }
  uint32_t count() const noexcept { return count_; }

  uint32_t same_as(const PythonStack& other) const noexcept {
    uint32_t at = 0, most = count_ < other.count_ ? count_ : other.count_;
    auto equal = [](const PythonFrame& left, const PythonFrame& right) {
      return left.word == right.word && left.evaluator == right.evaluator && left.entry == right.entry;
    };
    while (at < most && equal((*this)[at], other[at])) at++;
    return at;
  }

 private:
  const PythonFrame* end_;
  uint32_t count_;
};

// Each group of Python frames, from its entry frame inwards, replaces the native frame that evaluates it. Goes inwards, from where the stack
// differs from the last one.
class Merge {
 public:
  // Native frames before `first` are left out, with the Python frames that they evaluate.
  Merge(LastStack& last, const NativeStack& native, const PythonStack& python, uint32_t first) noexcept
      : last_(last), native_(native), python_(python), first_(first) {}

  void begin(FrameWord mark) noexcept {
    if (mark) put(mark);
    if (!first_ && python_.count() && !python_[0].evaluator) group();
    while (first_ && lies_outside(native_.sps[first_ - 1])) python_at_++;
    native_at_ = first_;
  }

  // Continues after the words that are certainly the same, given how many frames are. False: there are none.
  bool begin_after(uint32_t same_native, uint32_t same_python) noexcept {
    for (uint32_t at = same_native; at > first_; at--) {
      LastStack::Place place = last_.places[at];
      bool inside = place.python == python_.count() || (python_[place.python].entry && python_[place.python].evaluator < native_.sps[at - 1]);
      if (place.python > same_python || !inside) continue;
      native_at_ = at;
      python_at_ = place.python;
      count_ = place.words;
      return true;
    }
    return false;
  }

  uint32_t count() const noexcept { return count_; }

  uint32_t run() noexcept {
    for (; native_at_ < native_.count; native_at_++) {
      last_.places[native_at_] = {static_cast<uint16_t>(count_), static_cast<uint16_t>(python_at_)};
      uint64_t sp = native_.sps[native_at_], cfa = native_at_ ? native_.sps[native_at_ - 1] : sp;
      // A group of Python frames whose evaluator lies further out: a frame that could not be unwound hid the evaluator, so the group goes here.
      while (lies_outside(cfa)) group();
      lies_outside(sp) ? group() : put(native_.words[native_at_]);
    }
    last_.places[native_at_] = {static_cast<uint16_t>(count_), static_cast<uint16_t>(python_at_)};
    // Python frames that no native frame evaluates: the native walk began further out, or the frame is just being entered.
    while (python_at_ < python_.count()) group();
    return count_;
  }

 private:
  bool lies_outside(uint64_t address) const noexcept { return python_at_ < python_.count() && python_[python_at_].evaluator >= address; }

  void group() noexcept {
    do put(python_[python_at_++].word);
    while (python_at_ < python_.count() && !python_[python_at_].entry);
  }

  void put(FrameWord word) noexcept { last_.words[count_++] = word; }

  LastStack& last_;
  const NativeStack& native_;
  const PythonStack& python_;
  uint32_t first_, native_at_ = 0, python_at_ = 0, count_ = 0;
};

// The trie node of the last stack.
uint32_t intern(LastStack& last) noexcept {
  uint32_t node = last.known_nodes ? last.nodes[last.known_nodes - 1] : last.base;
  for (uint32_t at = last.known_nodes; at < last.count; at++) {
    node = trie::node(node, last.words[at]);
    if (!node) return 0;
    last.nodes[at] = node;
    last.known_nodes = at + 1;
  }
  return node;
}

void hash_from(LastStack& last, uint32_t at) noexcept {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
  uint64_t hash = at ? last.hashes[at - 1] : static_cast<uint64_t>(last.generation) << 32 | last.base;
  for (; at < last.count; at++) {
    hash = (hash ^ last.words[at]) * kFactor;
    hash ^= hash >> 32;
    last.hashes[at] = hash;
  }
}

bool is_on_stack(const Thread& thread, uint64_t address) noexcept { return address >= thread.stack_low && address < thread.stack_high; }

// The known bounds of the thread's stack may be wrong (after a change of the main thread's limit, say). They are looked up again ever more rarely:
// it means reading the map, and a thread may well stay on coroutines' stacks.
bool look_again(Thread& thread, uint64_t sp) noexcept {
  uint32_t missed = ++thread.off_stack;
  if (missed & (missed - 1)) return false;
  StackBounds bounds = stack_bounds_around(sp, thread.block, thread.tid.load(std::memory_order_relaxed) == sys::process_id());
  if (sp < bounds.low || sp >= bounds.high) return false;
  thread.stack_low = bounds.low;
  thread.stack_high = bounds.high;
  return true;
}

// The program's handler of a fault may have left a capture by siglongjmp(): another capture further up on the same stack shows that.
bool is_left(const Thread& thread, uint64_t sp) noexcept { return is_on_stack(thread, thread.busy) && is_on_stack(thread, sp) && sp > thread.busy; }

// Adds a mark when the outermost frame is not the thread's first: an incomplete stack is always marked.
FrameWord mark_of(bool own_stack, Ending ending, const NativeStack& native, const PythonStack& python) noexcept {
  if (!own_stack) return other_stack.word();
  if (ending == Ending::FULL || python.count() == kMaxFrames) return truncated.word();
  if (ending == Ending::OUTERMOST || ending == Ending::APPROXIMATE) return 0;
  bool python_closes = python.count() && (!native.count || !python[0].evaluator || python[0].evaluator >= native.sps[0]);
  return python_closes ? 0 : incomplete.word();
}

uint32_t merged_stack(Thread& thread, const Registers& from) noexcept {
  LastStack& last = thread.last;
  if (uint32_t node = capture_cache::lookup(thread, from)) return node;
  bool turn = !last.python_turn;
  // A tick may see frames that are half linked: its findings about them are not cached.
  size_t python_count = thread.foreign ? 0 : python::walk(last.python[turn], kMaxFrames, from.exact ? nullptr : &thread.met);
  PythonStack python(last.python[turn], python_count), last_python(last.python[!turn], last.python_count);
  NativeStack native{.ending = Ending::LOST};
  bool own_stack = thread.unwinder && (is_on_stack(thread, from.sp) || look_again(thread, from.sp));
  if (own_stack) native = thread.unwinder->unwind(from, thread.stack_high);

  // In the thread that launched a region, the region's own stack already contains the frames around it.
  uint32_t first = 0;
  while (thread.launched_by && first < native.count && native.sps[first] >= thread.launched_at) first++;
  FrameWord mark = mark_of(own_stack, first ? Ending::OUTERMOST : native.ending, native, python);

  bool comparable = last.count && last.generation == trie::generation() && last.base == thread.launched_by && last.base_at == thread.launched_at &&
                    last.mark == mark;
  Merge merge(last, native, python, first);
  uint32_t same_native = native.same < last.native_count ? native.same : last.native_count;
  bool resumes = comparable && merge.begin_after(same_native, python.same_as(last_python));
  if (!resumes) merge.begin(mark);
  uint32_t same = resumes ? merge.count() : 0, count = merge.run();
  if (from.all && thread.omp_waiting && from.pc >= thread.wait_low && from.pc < thread.wait_high) last.words[count++] = openmp_wait.word();
  if (last.known_nodes > same) last.known_nodes = same;
  last.generation = trie::generation();
  last.base = thread.launched_by;
  last.base_at = thread.launched_at;
  last.mark = mark;
  last.native_count = native.count;
  last.python_count = python.count();
  last.python_turn = turn;
  last.count = count;
  if (!count) return 0;
  hash_from(last, same);
  // A search of the trie misses the processor's caches at every frame.
  return from.exact ? intern(last) : capture_cache::node_of(thread, from, intern);
}

}  // namespace

void forget_marks() noexcept {
  for (Mark* mark : {&openmp_wait, &incomplete, &truncated, &other_stack, &own, &unseen}) mark->forget();
}

uint32_t unseen_stack(uint64_t routine) noexcept {
  using schema::FrameKind;
  modules::Module module;
  FrameWord word = frame_word(FrameKind::ADDRESS, 0, routine & 0xFFFF'FFFF'FFFF);
  if (routine && modules::find(routine, &module) && module.view)
    word = frame_word(FrameKind::NATIVE, module.id, ((routine - module.base) & (schema::kExactPc - 1)) | schema::kExactPc);
  return trie::node(routine ? trie::node(0, word) : 0, unseen.word());
}

uint32_t capture(Thread& thread, const Registers& from, Outward outward) noexcept {
  threads::Use use(thread);
  if (!control::recording()) return 0;
  if (thread.busy) {
    if (!is_left(thread, from.sp)) return trie::node(0, own.word());
    capture_cache::was_left(thread);
    thread.last.count = 0;
  }
  // An unwinder of an earlier thread in this slot has rules that are still valid, and its last stack is only reused if it matches.
  if (!thread.unwinder) thread.unwinder = NativeUnwinder::create();
  signals::FaultsOpen faults(thread);
  thread.busy = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  uint32_t node = merged_stack(thread, outward ? outward(thread, from) : from);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.busy = 0;
  return node;
}

}  // namespace aiflame
