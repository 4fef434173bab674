#include "sampler/capture_cache.hpp"

#include "base/assertion.hpp"
#include "base/clock.hpp"
#include "base/sys.hpp"
#include "sampler/threads.hpp"
#include "unwind/generation.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <atomic>
#include <utility>

namespace aiflame::capture_cache {

namespace {

using Slot = CaptureCache::Slot;

// The program's handler may leave a capture by a jump: so the mark that an entry is valid is removed before the entry is changed, and set again
// last.
void in_this_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

void put(CachedStack& place, CachedStack stack) noexcept {
  place.node = 0;
  in_this_order();
  place.hash = stack.hash;
  place.proof = stack.proof;
  in_this_order();
  place.node = stack.node;
}

struct Found {
  CachedStack& stack;
  bool is_new;
};

Found find(CaptureCache& known, LastStack& last, uint32_t (*intern)(LastStack&) noexcept) noexcept {
  AIFLAME_ASSERT(last.count > 0 && last.count <= LastStack::kMost);
  uint64_t hash = last.hashes[last.count - 1];
  CachedStack* set = known.at + hash % CaptureCache::kSets * CaptureCache::kWays;
  for (uint32_t way = 0; way < CaptureCache::kWays; way++)
    if (set[way].hash == hash && set[way].node) return {set[way], false};
  uint32_t node = intern(last);
  for (uint32_t way = CaptureCache::kWays - 1; way > 0; way--) put(set[way], set[way - 1]);
  put(set[0], {hash, node, 0});
  return {set[0], true};
}

Proof& proof_at(CaptureCache& known, uint32_t at) noexcept {
  AIFLAME_ASSERT(at > 0 && at % CaptureCache::kProofSlots == 0 && at + CaptureCache::kProofSlots <= CaptureCache::kRoom);
  return *reinterpret_cast<Proof*>(known.kept + at);
}

// All of them lie on the stack that the thread is on, above its stack pointer. (An address sanitizer forbids the words between variables.)
[[gnu::no_sanitize_address]] bool are_same_on_stack(const Slot* slots, size_t count) noexcept {
  uint64_t differences = 0;
  for (size_t at = 0; at < count; at++) differences |= *reinterpret_cast<const uint64_t*>(slots[at].read.address) ^ slots[at].read.value;
  return differences == 0;
}

bool are_same_of_python(const Slot* slots, size_t count) noexcept { return python::are_same(&slots->read, count); }

// Innermost first, where stacks differ.
template <class AreSame>
bool hold(const CaptureCache& known, uint32_t first, AreSame are_same) noexcept {
  const Slot* kept = known.kept;
  for (uint32_t at = first, count = kept[first].span.count; at; at = kept[at].span.outside) {
    if (!are_same(kept + at + 1, count)) return false;
    count = kept[at].span.outside_count;
  }
  return true;
}

bool holds(const CaptureCache& known, const Proof& proof, const Registers& from, uint64_t python, uint64_t stamp) noexcept {
  return proof.pc == from.pc && proof.sp == from.sp && (!proof.by_bp || proof.bp == from.bp) && proof.python == python && proof.stamp == stamp &&
         hold(known, proof.native_words, are_same_on_stack) && hold(known, proof.python_words, are_same_of_python);
}

void begin_anew(CaptureCache& known, const Thread& thread) noexcept {
  known.captures = known.last = known.expected = known.after_last = known.last_native = known.last_python = 0;
  in_this_order();
  if (known.used)
    for (CachedStack& stack : known.at)
      if (stack.proof) stack.proof = 0;  // memory that was never used stays so
  in_this_order();
  known.used = CaptureCache::kProofSlots;  // the first is none
  known.full = false;
  known.stack_high = thread.stack_high;
  known.begun_ns = now_ns();
}

// For a full cache, or a stack that has needed too many proofs. Filling it again costs little, if that happens seldom.
void begin_anew_seldom(CaptureCache& known, const Thread& thread) noexcept {
  constexpr uint64_t kSeldom = 10'000'000'000;
  if (now_ns() - known.begun_ns > kSeldom) begin_anew(known, thread);
}

// A point in a span's words at which another span may continue.
struct Place {
  uint32_t span, count;
};

// How many of the words are the same as those that `like` ends with, and where they are.
uint32_t shared(const CaptureCache& known, uint32_t like, const Read* words, uint32_t count, Place* end) noexcept {
  constexpr uint32_t kDeepest = 4;
  Place chain[kDeepest];
  uint32_t depth = 0, same = 0;
  *end = {};
  for (Place at{like, known.kept[like].span.count}; at.span; depth++) {
    if (depth == kDeepest) return 0;  // all of its own, so that not too many are followed
    chain[depth] = at;
    const Span& span = known.kept[at.span].span;
    at = {span.outside, span.outside_count};
  }
  while (depth-- > 0) {
    const Slot* theirs = known.kept + chain[depth].span + 1;
    *end = {chain[depth].span, 0};
    for (; end->count < chain[depth].count; end->count++, same++)
      if (same == count || !(theirs[end->count].read == words[same])) return same;
  }
  return same;
}

// Where there is room for all of them.
uint32_t keep(CaptureCache& known, uint32_t like, const Read* words, uint32_t count) noexcept {
  Place outside;
  uint32_t same = shared(known, like, words, count, &outside), own = count - same, at = known.used;
  AIFLAME_ASSERT(at + 1 + own <= CaptureCache::kRoom);
  known.kept[at].span = {.outside = outside.span, .outside_count = outside.count, .count = own};
  for (uint32_t word = 0; word < own; word++) known.kept[at + 1 + word].read = words[same + word];
  known.used = at + 1 + own;
  in_this_order();
  return at;
}

// If stacks are rarely recognized by their words, writing these down does not pay.
constexpr uint8_t kTries = 8;

// Keeps a proof of the stack that was just walked. Returns its place, by which the stack is known from now on; 0: there is none.
uint32_t prove(Thread& thread, const Registers& from, CachedStack& stack) noexcept {
  CaptureCache& known = *thread.known;
  uint64_t stamp = known.stamp, python = python::walked_from();
  if (stamp != generation::current() || !python::may_be_kept()) return 0;
  const Proof before = stack.proof ? proof_at(known, stack.proof) : Proof{};
  bool had_one = before.node == stack.node, holds_still = had_one && before.stamp == stamp;
  // A proof may be valid although another stack preceded it this time.
  for (uint32_t at = holds_still ? stack.proof : 0; at; at = proof_at(known, at).other)
    if (holds(known, proof_at(known, at), from, python, stamp)) return at;
  if (known.full || (had_one && before.made >= kTries)) return begin_anew_seldom(known, thread), 0;
  bool by_bp = false;
  Read *native = known.native_read, *of_python = known.python_read;
  uint32_t native_count = thread.unwinder->reads(native, CaptureCache::kMostRead, &by_bp);
  if (!native_count) return 0;
  uint32_t python_count = python ? static_cast<uint32_t>(python::reads(of_python, CaptureCache::kMostRead, &thread.met)) : 0;
  if (python && !python_count) return 0;
  for (uint32_t word = 0; word < python_count / 2; word++) std::swap(of_python[word], of_python[python_count - 1 - word]);

  uint32_t at = (known.used + CaptureCache::kProofSlots - 1) / CaptureCache::kProofSlots * CaptureCache::kProofSlots;
  uint32_t most = CaptureCache::kProofSlots + 2 + native_count + python_count;
  known.full = at + most > CaptureCache::kRoom;
  if (known.full) return 0;
  known.used = at + CaptureCache::kProofSlots;
  known.last_native = keep(known, known.last_native, native, native_count);
  if (python) known.last_python = keep(known, known.last_python, of_python, python_count);
  Proof& proof = proof_at(known, at);
  proof.stamp = 0;
  in_this_order();
  proof = {.pc = from.pc,
           .sp = from.sp,
           .bp = from.bp,
           .python = python,
           .stamp = 0,
           .native_words = known.last_native,
           .python_words = python ? known.last_python : 0,
           .node = stack.node,
           .seen = had_one ? before.seen : 0,
           .other = holds_still ? stack.proof : 0,
           .by_bp = by_bp,
           .made = static_cast<uint8_t>(had_one ? before.made + 1 : 1)};
  in_this_order();
  proof.stamp = stamp;
  in_this_order();
  return stack.proof = at;
}

// Prefetches a proof and most of its words: other work comes before they are read, but they stay closer in the cache.
void fetch(const Slot* proof) noexcept {
  constexpr uint32_t kLines = 8;
  for (uint32_t line = 0; line < kLines; line++) __builtin_prefetch(proof + line * CaptureCache::kProofSlots);
}

// The proof of that number in `order`, 0: it is none, or has been overwritten.
uint32_t numbered(const CaptureCache& known, uint32_t number) noexcept {
  bool kept = number && number <= known.captures && known.captures - number < CaptureCache::kMostOrder;
  return kept ? known.order[number % CaptureCache::kMostOrder] : 0;
}

// A program repeats itself: the stack that followed this one the last time is expected next. While expectations come true, the old order is
// followed; else it is taken up again where the present stack was captured last.
void meet(CaptureCache& known, uint32_t at) noexcept {
  Proof& proof = proof_at(known, at);
  bool was_expected = numbered(known, known.expected) == at;
  uint32_t before = proof.seen;
  known.order[(known.captures + 1) % CaptureCache::kMostOrder] = at;
  in_this_order();
  proof.seen = ++known.captures;
  known.last = at;
  known.after_last = before ? before + 1 : 0;
  known.expected = was_expected ? known.expected + 1 : known.after_last;
}

// Takes less memory in a program with a limited address space, and does not ask again and again after a refusal.
bool has_room() noexcept {
  rlimit limit{};
  long told = sys::call(SYS_prlimit64, 0, RLIMIT_AS, 0, reinterpret_cast<long>(&limit));
  return !sys::failed(told) && limit.rlim_cur == RLIM_INFINITY;
}

void map(Thread& thread) noexcept {
  static std::atomic<bool> refused{false};
  if (refused.load(std::memory_order_relaxed)) return;
  void* memory = has_room() ? sys::map_memory(sizeof(CaptureCache)) : nullptr;
  if (!memory) refused.store(true, std::memory_order_relaxed);
  // With huge pages, a few words here and there would take megabytes.
  if (memory) sys::call(SYS_madvise, reinterpret_cast<long>(memory), sizeof(CaptureCache), MADV_NOHUGEPAGE);
  thread.known = static_cast<CaptureCache*>(memory);
}

}  // namespace

uint32_t lookup(Thread& thread, const Registers& from) noexcept {
  if (!thread.known || from.exact || from.all || thread.launched_by || from.sp < thread.stack_low) return 0;
  CaptureCache& known = *thread.known;
  if (known.stack_high != thread.stack_high) begin_anew(known, thread);
  uint64_t stamp = known.stamp = generation::current();
  if (!known.captures || !python::may_be_kept()) return 0;
  uint64_t python = python::walked_from();
  uint32_t tried = 0;
  for (uint32_t at : {numbered(known, known.expected), numbered(known, known.after_last), known.last}) {
    if (!at || at == tried || !holds(known, proof_at(known, at), from, python, stamp)) {
      tried = at;
      continue;
    }
    meet(known, at);
    fetch(known.kept + numbered(known, known.expected));
    return proof_at(known, at).node;
  }
  return 0;
}

uint32_t node_of(Thread& thread, const Registers& from, uint32_t (*intern)(LastStack&) noexcept) noexcept {
  if (!thread.known) map(thread);
  if (!thread.known) return intern(thread.last);
  CaptureCache& known = *thread.known;
  Found found = find(known, thread.last, intern);
  CachedStack& stack = found.stack;
  // A stack that comes for the first time may never come again, so only one that the recording has already is proved.
  bool whole = !thread.last.mark && !thread.launched_by && thread.last.native_count && known.used && known.stack_high == thread.stack_high;
  uint32_t proof = !found.is_new && stack.node && whole ? prove(thread, from, stack) : 0;
  known.last = 0;
  if (proof) meet(known, proof);
  return stack.node;
}

void was_left(Thread& thread) noexcept {
  if (CaptureCache* known = thread.known) known->last_native = known->last_python = 0;
}

void unmap(Thread& thread) noexcept {
  if (thread.known) sys::unmap_memory(thread.known, sizeof(CaptureCache));
  thread.known = nullptr;
}

}  // namespace aiflame::capture_cache
