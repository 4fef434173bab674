// gcc would pack a frame's registers into vectors for the stores, and unpack them for every look-up: 3 ns a frame.
#pragma GCC optimize("no-tree-slp-vectorize")
#include "unwind/native_unwinder.hpp"

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

// One walk. Frames go to `out`; what is needed to know them again goes to `fresh`, or is in `last` already.
class Walk {
 public:
  // The kernel leaves the 128 bytes below the stack pointer alone, and rules may look there (epilogues).
  static constexpr uint64_t kRedZone = 128;

  Walk(State& state, const Registers& from, uint64_t high, NativeFrame* out, size_t room) noexcept
      : state_(state), stepper_(state, from.sp - kRedZone, high), out_(out), room_(room) {
    if (state_.last_generation != stepper_.generation() || state_.last_high != high) state_.last_count = 0;
    if (state_.last_high != high) state_.outermost_sp = 0;
    cursor_ = static_cast<int32_t>(state_.last_count) - 1;
  }

  Ending walk(Cursor at) noexcept {
    if (at.sp >= stepper_.high() - 8) return Ending::BOUNDS;
    for (;;) {
      if (!at.exact && !at.guessed) pass(at);
      if (count_ < room_ && recognised(at)) at = follow();
      if (count_ == room_) return Ending::FULL;
      uint64_t pc = at.pc, sp = at.sp;
      Link& link = fresh(count_);
      Step step = stepper_.step(at, link);
      bool known = step == Step::CALLER;
      out_[count_++] = {.pc = pc, .sp = sp, .cfa = known ? at.sp : sp, .word = link.word};
      approximate_ |= at.guessed;
      // What was followed leads on to the same outermost frame; anything else, and the stack is pieced together.
      if (followed_ >= 0 && (known || cursor_ >= 0)) spill();
      if (!known) return ending(step, sp);
    }
  }

  size_t count() const noexcept { return count_; }

  void remember() noexcept {
    uint32_t kept = followed_ >= 0 ? static_cast<uint32_t>(followed_) + 1 : 0;
    size_t added = followed_ >= 0 ? followed_at_ : count_;
    state_.last_generation = stepper_.generation();
    state_.last_high = stepper_.high();
    state_.last_count = 0;
    if (count_ > State::kLinks || kept + added > State::kLinks) return;
    for (size_t at = 0; at < added; at++) state_.last[kept + at] = state_.fresh[added - 1 - at];
    state_.last_count = kept + static_cast<uint32_t>(added);
  }

 private:
  Ending ending(Step step, uint64_t sp) noexcept {
    if (step == Step::BOUNDS) return Ending::BOUNDS;
    if (step == Step::LOST) return Ending::LOST;
    if (step == Step::NO_RETURN && !stepper_.may_begin_at(sp)) return Ending::LOST;
    if (approximate_) return Ending::APPROXIMATE;
    if (step == Step::OUTERMOST) state_.outermost_sp = sp;
    return Ending::OUTERMOST;
  }

  // The most frequent frames, without anything that they do not need: rules that are at hand, plain stack pointer or frame
  // pointer, nothing of the last stack in reach. Leaves `at` on the first other frame.
  void pass(Cursor& at) noexcept {
    uint64_t pc = at.pc, sp = at.sp, bp = at.bp;
    const uint64_t high = stepper_.high(), reach = cursor_ >= 0 ? state_.last[cursor_].sp : ~uint64_t{0};
    const uint32_t generation = stepper_.generation();
    size_t count = count_;
    for (size_t end = room_ < State::kLinks ? room_ : State::kLinks; count < end && sp < reach; count++) {
      const Rule* rule = state_.kept(pc, false, generation);
      if (!rule || (rule->row.cfa != Cfa::SP && rule->row.cfa != Cfa::BP)) break;
      uint64_t cfa = (rule->row.cfa == Cfa::SP ? sp : bp) + static_cast<uint64_t>(int64_t{rule->row.cfa_offset});
      if (cfa < sp + 8 || cfa > high || cfa % 8) break;
      uint64_t caller = load(cfa - 8), caller_bp = bp, bp_slot = 0;
      if (caller < 4096 || rule->row.bp > Bp::AT_CFA) break;
      if (rule->row.bp == Bp::AT_CFA) {
        bp_slot = cfa + static_cast<uint64_t>(int64_t{8} * rule->row.bp_words);
        if (bp_slot < sp || bp_slot >= high) break;
        caller_bp = load(bp_slot);
      }
      state_.fresh[count] = {.pc = pc, .sp = sp, .bp = bp, .word = rule->word, .bp_slot = bp_slot, .plain = true, .steps = true};
      out_[count] = {.pc = pc, .sp = sp, .cfa = cfa, .word = rule->word};
      pc = caller;
      sp = cfa;
      bp = caller_bp;
    }
    count_ = count;
    at.pc = pc;
    at.sp = sp;
    at.bp = bp;
  }

  // The frame to come was in the last stack: same place, same registers.
  bool recognised(const Cursor& at) noexcept {
    while (cursor_ >= 0 && state_.last[cursor_].sp < at.sp) cursor_--;
    if (cursor_ < 0 || at.exact || at.guessed) return false;
    const Link& link = state_.last[cursor_];
    return link.sp == at.sp && link.pc == at.pc && link.bp == at.bp && link.plain;
  }

  // Takes frames from the last stack while the memory that led from one to the next is unchanged. Returns the first one whose
  // own step has to be done again.
  Cursor follow() noexcept {
    followed_ = cursor_;
    followed_at_ = count_;
    const Link* link = &state_.last[cursor_];
    const Link* outermost = state_.last;
    NativeFrame *frame = out_ + count_, *end = out_ + room_;
    for (; link > outermost && frame < end; link--, frame++) {
      const Link& caller = link[-1];
      if (!link->steps || load(caller.sp - 8) != caller.pc) break;
      if (link->bp_slot && load(link->bp_slot) != caller.bp) break;
      if (link->cfa_slot && load(link->cfa_slot) != link->cfa_value) break;
      *frame = {.pc = link->pc, .sp = link->sp, .cfa = caller.sp, .word = link->word};
    }
    count_ = static_cast<size_t>(frame - out_);
    cursor_ = static_cast<int32_t>(link - outermost) - 1;
    return {.pc = link->pc, .sp = link->sp, .bp = link->bp, .all = nullptr, .exact = false, .guessed = false};
  }

  // The frames that follow() took stand among new ones: they are written down like those. The frame after them already is.
  void spill() noexcept {
    for (size_t at = followed_at_; followed_ > cursor_ + 1; at++) fresh(at) = state_.last[followed_--];
    followed_ = -1;
  }

  Link& fresh(size_t at) noexcept { return at < State::kLinks ? state_.fresh[at] : spare_; }
  static uint64_t load(uint64_t address) noexcept { return *reinterpret_cast<const uint64_t*>(address); }

  State& state_;
  Stepper stepper_;
  NativeFrame* out_;
  size_t room_, count_ = 0;
  int32_t cursor_;         // the next link of the last stack to compare with
  int32_t followed_ = -1;  // the innermost link of what follow() took, if nothing came after it yet
  size_t followed_at_ = 0;
  bool approximate_ = false;
  Link spare_;
};

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

size_t NativeUnwinder::unwind(const Registers& from, uint64_t stack_high, NativeFrame* out, size_t room, Ending* ending) noexcept {
  Walk walk(*state_, from, stack_high, out, room);
  *ending = walk.walk({.pc = from.pc, .sp = from.sp, .bp = from.bp, .all = from.all, .exact = from.exact, .guessed = false});
  walk.remember();
  return walk.count();
}

}  // namespace aiflame
