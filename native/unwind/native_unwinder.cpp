// Without this, gcc packs a frame's registers into vectors for the stores, and unpacks them for every look-up: 3 ns a frame.
#pragma GCC optimize("no-tree-slp-vectorize")
#include "unwind/native_unwinder.hpp"

#include "base/assertion.hpp"
#include "base/sys.hpp"
#include "unwind/native_unwinder_state.hpp"
#include "unwind/native_unwinder_step.hpp"

#include <cstring>
#include <new>

namespace aiflame {

namespace {

using State = NativeUnwinder::State;
using eh_frame::Bp;
using eh_frame::Cfa;

// One walk.
//
// A frame of the last stack is still valid if memory still leads from it, and from every frame outside of it, to its caller; this is checked from
// the outermost frame inwards. As soon as the walk, which comes from the innermost frame, reaches a valid frame with the same relevant registers,
// all frames outside of it are the same.
class Walk {
 public:
  // The kernel leaves the 128 bytes below the stack pointer alone, and rules may look there (epilogues).
  static constexpr uint64_t kRedZone = 128;
  static constexpr uint32_t kRoom = State::kFrames;

  Walk(State& state, const Registers& from, uint64_t high) noexcept : state_(state), stepper_(state, from.sp - kRedZone, high) {
    if (state_.kept_high != high) state_.outermost_sp = 0;
    bool comparable = state_.kept_generation == stepper_.generation() && state_.kept_high == high;
    intact_ = comparable ? still_there(from.sp) : 0;
    cursor_ = static_cast<int32_t>(intact_) - 1;
    state_.kept = 0;
  }

  NativeStack walk(Cursor at) noexcept {
    Ending ending = go(at);
    uint32_t same = met_ ? static_cast<uint32_t>(cursor_) + 1 : 0, count = same;
    if (same + count_ > kRoom) {
      count = kRoom - count_;
      keep_innermost(count, same);
      same = 0;
      ending = Ending::FULL;
    }
    AIFLAME_ASSERT(count + count_ <= kRoom && same <= intact_);
    for (uint32_t left = count_; left > 0; count++) keep(count, state_.fresh[--left]);
    state_.kept = ending == Ending::OUTERMOST && (ends_by_rule_ || met_) ? count : 0;
    state_.kept_generation = stepper_.generation();
    state_.kept_high = stepper_.high();
    return {.pcs = state_.pcs, .sps = state_.sps, .words = state_.words, .count = count, .same = same, .ending = ending};
  }

 private:
  // How many of the last stack's outermost frames still lead to each other.
  uint32_t still_there(uint64_t sp) const noexcept {
    const uint64_t *pcs = state_.pcs, *sps = state_.sps;
    uint32_t at = 0;
    for (; at < state_.kept && sps[at] >= sp; at++) {
      if (at == 0) continue;
      if (load(sps[at - 1] - 8) != pcs[at - 1]) break;
      uint8_t flags = state_.flags[at];
      if ((flags & Link::ONCE) || ((flags & Link::CHECKS_BP) && load(state_.bps[at].slot) != state_.bps[at - 1].value)) break;
      if ((flags & Link::READS_CFA) && load(state_.cfas[at].slot) != state_.cfas[at].value) break;
    }
    return at;
  }

  Ending go(Cursor at) noexcept {
    if (at.sp >= stepper_.high() - 8) return Ending::BOUNDS;
    for (;;) {
      if (!at.exact && !at.guessed) pass(at);
      if (meets(at)) return Ending::OUTERMOST;
      if (count_ == kRoom) return Ending::FULL;
      uint64_t sp = at.sp;
      approximate_ |= at.guessed;
      Step step = stepper_.step(at, state_.fresh[count_++]);
      if (step != Step::CALLER) return ending(step, sp);
    }
  }

  Ending ending(Step step, uint64_t sp) noexcept {
    if (step == Step::BOUNDS) return Ending::BOUNDS;
    if (step == Step::LOST) return Ending::LOST;
    if (step == Step::NO_RETURN && !stepper_.may_begin_at(sp)) return Ending::LOST;
    if (approximate_) return Ending::APPROXIMATE;
    ends_by_rule_ = step == Step::OUTERMOST;
    if (ends_by_rule_) state_.outermost_sp = sp;
    return Ending::OUTERMOST;
  }

  // The fast path for the most frequent frames: cached rules with plain stack pointer or frame pointer. Leaves `at` on the first other frame, or
  // on one that may be in the last stack.
  void pass(Cursor& at) noexcept {
    const uint64_t high = stepper_.high(), reach = cursor_ >= 0 ? state_.sps[cursor_] : ~uint64_t{0};
    if (state_.rules_generation != stepper_.generation()) return;
    uint64_t pc = at.pc, sp = at.sp, bp = at.bp;
    Rule* callee = nullptr;
    uint32_t count = count_;
    for (; count < kRoom && sp < reach; count++) {
      Rule* rule = callee ? &state_.rules[callee->caller] : nullptr;
      if (!rule || rule->key != pc) [[unlikely]] {
        rule = state_.kept_rule(pc, false);
        if (!rule) break;
        if (callee) callee->caller = static_cast<uint32_t>(rule - state_.rules);
      }
      callee = rule;
      __builtin_prefetch(rule + 6);  // of a stack that was last seen long ago
      const bool by_bp = rule->row.cfa == Cfa::BP;
      if ((!by_bp && rule->row.cfa != Cfa::SP) || rule->row.bp > Bp::AT_CFA) break;
      uint64_t cfa = (by_bp ? bp : sp) + static_cast<uint64_t>(int64_t{rule->row.cfa_offset});
      if (cfa < sp + 8 || cfa > high || cfa % 8) break;
      uint64_t caller = load(cfa - 8), caller_bp = bp, bp_slot = 0;
      if (caller < 4096) break;
      if (rule->row.bp == Bp::AT_CFA) {
        bp_slot = cfa + static_cast<uint64_t>(int64_t{8} * rule->row.bp_words);
        if (bp_slot < sp || bp_slot >= high) break;
        caller_bp = load(bp_slot);
      }
      state_.fresh[count] = {.pc = pc, .sp = sp, .bp = bp, .word = rule->word, .bp_slot = bp_slot, .flags = by_bp};
      pc = caller;
      sp = cfa;
      bp = caller_bp;
    }
    count_ = count;
    at.pc = pc;
    at.sp = sp;
    at.bp = bp;
  }

  // Whether the next frame is one of the last stack: same place, same registers.
  bool meets(const Cursor& at) noexcept {
    while (cursor_ >= 0 && state_.sps[cursor_] < at.sp) cursor_--;
    if (cursor_ < 0 || at.exact || at.guessed || state_.sps[cursor_] != at.sp) return false;
    uint8_t flags = state_.flags[cursor_];
    met_ = state_.pcs[cursor_] == at.pc && !(flags & Link::FOREIGN) && (!(flags & Link::NEEDS_BP) || state_.bps[cursor_].value == at.bp);
    if (!met_) cursor_--;
    return met_;
  }

  // Stores a new frame of the stack, once those outside of it are stored.
  void keep(uint32_t at, const Link& link) noexcept {
    bool caller_needs = at > 0 && (state_.flags[at - 1] & Link::NEEDS_BP), saves = link.bp_slot != 0;
    uint8_t flags = link.flags;
    if ((flags & Link::USES_BP) || (caller_needs && !saves && !(flags & Link::LOSES_BP))) flags |= Link::NEEDS_BP;
    if (caller_needs && saves) flags |= Link::CHECKS_BP;
    state_.pcs[at] = link.pc;
    state_.sps[at] = link.sp;
    state_.flags[at] = flags;
    if (flags & (Link::NEEDS_BP | Link::CHECKS_BP)) state_.bps[at] = {link.bp, link.bp_slot};
    if (flags & Link::READS_CFA) state_.cfas[at] = {load(link.cfa_slot), link.cfa_slot};
    state_.words[at] = link.word;
  }

  // There is room for only this many of the following frames.
  void keep_innermost(uint32_t room, uint32_t count) noexcept {
    AIFLAME_ASSERT(room <= count && count <= kRoom);
    memmove(state_.pcs, state_.pcs + (count - room), room * sizeof *state_.pcs);
    memmove(state_.sps, state_.sps + (count - room), room * sizeof *state_.sps);
    memmove(state_.words, state_.words + (count - room), room * sizeof *state_.words);
  }

  // Loads a word like Stepper::load().
  [[gnu::no_sanitize_address]] static uint64_t load(uint64_t address) noexcept { return *reinterpret_cast<const uint64_t*>(address); }

  State& state_;
  Stepper stepper_;
  uint32_t count_ = 0;  // of `fresh`
  uint32_t intact_;
  int32_t cursor_;  // the frame of the last stack to compare with next; once reached, it
  bool met_ = false;
  bool approximate_ = false;
  bool ends_by_rule_ = false;
};

Cursor cursor_at(const Registers& from) noexcept {
  return {.pc = from.pc, .sp = from.sp, .bp = from.bp, .all = from.all, .exact = from.exact, .guessed = false};
}

}  // namespace

NativeUnwinder* NativeUnwinder::create() noexcept {
  constexpr size_t kBytes = sizeof(State) + sizeof(NativeUnwinder);
  auto* memory = static_cast<char*>(sys::map_memory(kBytes));
  if (!memory) return nullptr;
  auto* unwinder = new (memory + sizeof(State)) NativeUnwinder();
  unwinder->state_ = reinterpret_cast<State*>(memory);
  return unwinder;
}

void NativeUnwinder::destroy(NativeUnwinder* unwinder) noexcept {
  if (unwinder) sys::unmap_memory(unwinder->state_, sizeof(State) + sizeof(NativeUnwinder));
}

NativeStack NativeUnwinder::unwind(const Registers& from, uint64_t stack_high) noexcept {
  Walk walk(*state_, from, stack_high);
  return walk.walk(cursor_at(from));
}

uint32_t NativeUnwinder::reads(Read* out, uint32_t room, bool* by_bp) const noexcept {
  const State& last = *state_;
  uint32_t count = 0;
  for (uint32_t at = 1; at < last.kept; at++) {
    if ((last.flags[at] & Link::ONCE) || count + 3 > room) return 0;
    out[count++] = {last.sps[at - 1] - 8, last.pcs[at - 1]};
    if (last.flags[at] & Link::READS_CFA) out[count++] = {last.cfas[at].slot, last.cfas[at].value};
    if (last.flags[at] & Link::CHECKS_BP) out[count++] = {last.bps[at].slot, last.bps[at - 1].value};
  }
  if (!count || (last.flags[last.kept - 1] & Link::FOREIGN)) return 0;
  *by_bp = last.flags[last.kept - 1] & Link::NEEDS_BP;
  return count;
}

uint32_t NativeUnwinder::callers(const Registers& from, uint64_t stack_high, Caller* callers, uint32_t most, bool (*inner)(uint64_t pc)) noexcept {
  Stepper stepper(*state_, from.sp - Walk::kRedZone, stack_high);
  Cursor at = cursor_at(from);
  uint32_t count = 0;
  for (Link link{}; count < most && inner(at.pc); count++) {
    if (stepper.step(at, link) != Step::CALLER || at.guessed || at.exact) break;
    bool slot_is_inside = link.bp_slot >= link.sp && link.bp_slot < at.sp;
    if ((link.flags & Link::LOSES_BP) || (link.bp_slot && !slot_is_inside)) break;
    callers[count] = {.pc = at.pc, .sp = at.sp, .bp_slot = link.bp_slot, .by_bp = (link.flags & Link::USES_BP) ? link.bp : 0};
  }
  return count;
}

}  // namespace aiflame
