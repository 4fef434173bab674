#include "unwind/native_unwinder_step.hpp"

#include "base/assertion.hpp"
#include "base/safe_load.hpp"
#include "unwind/jit_code.hpp"

#include <cstring>

namespace aiflame {

using eh_frame::Bp;
using eh_frame::Cfa;
using schema::FrameKind;

namespace {

bool is_generated(FrameWord word) noexcept { return word >> 60 == static_cast<uint64_t>(FrameKind::JIT); }

FrameWord approximate(FrameWord word) noexcept {
  constexpr auto kNative = static_cast<uint64_t>(FrameKind::NATIVE) << 60, kApprox = static_cast<uint64_t>(FrameKind::NATIVE_APPROX) << 60;
  return word >> 60 == kNative >> 60 ? word ^ kNative ^ kApprox : word;
}

// A call instruction ends right before `address`: call rel32, or call through a register or memory, by the length that its
// ModRM byte asks for. REX prefixes come before the opcode and need no look.
bool follows_call(uint64_t address) noexcept {
  uint64_t word = safe_load(address - 8);
  auto byte = [word](int back) { return static_cast<uint8_t>(word >> 8 * (8 - back)); };
  if (byte(5) == 0xe8) return true;
  for (int length = 2; length <= 7; length++) {
    if (byte(length) != 0xff) continue;
    uint8_t modrm = byte(length - 1), mode = modrm >> 6, rm = modrm & 7;
    if (((modrm >> 3) & 7) != 2) continue;
    int expected = 2 + (mode != 3 && rm == 4) + (mode == 1 ? 1 : mode == 2 || (mode == 0 && rm == 5) ? 4 : 0);
    if (expected == length) return true;
  }
  return false;
}

// Whether a value on the stack could be a return address.
bool may_return_to(uint64_t address) noexcept {
  modules::Module module;
  if (!modules::find_known(address - 1, &module) || address < module.low + 8) return false;
  uint32_t row;
  uint64_t start;
  if (!module.view && !jit::find(address - 1, &row, &start)) return false;
  return follows_call(address);
}

}  // namespace

const Rule& NativeUnwinder::State::find_rule(uint64_t pc, bool exact, bool guess) noexcept {
  uint32_t generation = modules::generation(), row;
  uint64_t lookup = exact ? pc : pc - 1, start;
  modules::Module module;
  bool found = guess ? modules::find_known(lookup, &module) : modules::find(lookup, &module);
  if (!found || !module.view) {
    bool generated = jit::find(lookup, &row, &start);
    unkept.word =
        generated ? frame_word(FrameKind::JIT, row, static_cast<uint32_t>(pc - start)) : frame_word(FrameKind::ADDRESS, 0, pc & 0xFFFF'FFFF'FFFF);
    unkept.row = {};
    return unkept;
  }
  Rule& made = new_rule(pc, generation);
  made.word = frame_word(FrameKind::NATIVE, module.id, ((pc - module.base) & (schema::kExactPc - 1)) | (exact ? schema::kExactPc : 0));
  made.row = eh_frame::find_row(module, lookup);
  made.caller = 0;
  made.key = key_of(pc, exact);
  return made;
}

// A rule without a key yet: a thread that is interrupted here for ever leaves no half-written rule.
Rule& NativeUnwinder::State::new_rule(uint64_t pc, uint32_t generation) noexcept {
  if (rules_generation != generation || rules_used >= kRules) {
    for (uint32_t at = 0; at < kRules; at++) rules[at].key = 0;
    memset(index, 0, sizeof index);
    rules_used = 1;
    rules_generation = generation;
  }
  if (!rules_used) rules_used = 1;
  AIFLAME_ASSERT(rules_used > 0 && rules_used < kRules);
  auto& set = index[set_of(pc)];
  memmove(set + 1, set, sizeof set - sizeof *set);
  set[0] = static_cast<uint16_t>(rules_used);
  Rule& rule = rules[rules_used++];
  rule.key = 0;
  return rule;
}

Step Stepper::step(Cursor& at, Link& link) noexcept {
  Rule rule = state_.rule(at.pc, at.exact, generation_, false);
  link = {.pc = at.pc,
          .sp = at.sp,
          .bp = at.bp,
          .word = at.guessed ? approximate(rule.word) : rule.word,
          .bp_slot = 0,
          .flags = static_cast<uint8_t>(Link::ONCE | (at.exact || at.guessed ? Link::FOREIGN : 0))};
  Cursor frame = at;
  Step step = by_rule(at, link, rule);
  if (step == Step::CALLER || step == Step::OUTERMOST || (step == Step::NO_RETURN && may_begin_at(frame.sp))) return step;
  // There is no rule, or it led astray: earlier frames may be wrong, so only a path to the thread's first frame is accepted.
  uint32_t least = step == Step::LOST ? kEnough : kAllTheWay;
  if (step != Step::LOST && !state_.outermost_sp) return step;
  link.flags |= Link::ONCE;
  at = frame;
  return by_scan(at, least) ? Step::CALLER : step;
}

// The caller, given this frame's CFA: the return address lies below it.
Step Stepper::leave(Cursor& at, Link& link, const eh_frame::Row& row, uint64_t cfa) const noexcept {
  if (cfa < at.sp + 8 || cfa > high_ || cfa % 8 || !find_bp(at, link, row, cfa)) return Step::BOUNDS;
  return arrive(at, load(cfa - 8), cfa);
}

// The same where a register has the return address, which may have been popped: then the frame has no room on the stack any more.
Step Stepper::leave_by_register(Cursor& at, Link& link, const eh_frame::Row& row) const noexcept {
  if (!at.all) return Step::LOST;
  uint64_t cfa = at.sp + static_cast<uint64_t>(int64_t{row.cfa_offset}), pc = static_cast<uint64_t>(at.all[row.cfa_extra]);
  if (cfa < at.sp || cfa > high_ || cfa % 8 || !find_bp(at, link, row, cfa)) return Step::BOUNDS;
  link.flags |= Link::ONCE;
  return arrive(at, pc, cfa);
}

// The caller's. False: it would lie outside.
bool Stepper::find_bp(Cursor& at, Link& link, const eh_frame::Row& row, uint64_t cfa) const noexcept {
  link.flags = static_cast<uint8_t>((link.flags & ~Link::ONCE) | (row.cfa == Cfa::BP || row.bp == Bp::AT_BP ? Link::USES_BP : 0));
  if (row.bp == Bp::LOST) {
    at.bp = 0;
    link.flags |= Link::LOSES_BP;
  }
  if (row.bp == Bp::AT_CFA || row.bp == Bp::AT_BP) {
    uint64_t slot = (row.bp == Bp::AT_BP ? at.bp : cfa) + static_cast<uint64_t>(int64_t{8} * row.bp_words);
    if (!readable(slot)) return false;
    at.bp = load(slot);
    link.bp_slot = slot;
    if (slot < at.sp) link.flags |= Link::ONCE;
  }
  return true;
}

Step Stepper::arrive(Cursor& at, uint64_t pc, uint64_t sp) noexcept {
  if (pc < 4096) return Step::NO_RETURN;
  at = {.pc = pc, .sp = sp, .bp = at.bp, .all = nullptr, .exact = false, .guessed = false};
  return Step::CALLER;
}

// One step without scanning: LOST when no rule applies.
Step Stepper::by_rule(Cursor& at, Link& link, const Rule& rule) noexcept {
  const eh_frame::Row& row = rule.row;
  auto offset = static_cast<uint64_t>(static_cast<int64_t>(row.cfa_offset)), extra = static_cast<uint64_t>(static_cast<int64_t>(row.cfa_extra));
  switch (row.cfa) {
    case Cfa::SP:
      return leave(at, link, row, at.sp + offset);
    case Cfa::BP:
      return leave(at, link, row, at.bp + offset);
    case Cfa::PLT:
      return leave(at, link, row, at.sp + ((at.pc & 15) >= offset ? 16 : 8));
    case Cfa::REGISTER:
      return at.all ? leave(at, link, row, static_cast<uint64_t>(at.all[row.cfa_extra]) + offset) : Step::LOST;
    case Cfa::RETURNING:
      return leave_by_register(at, link, row);
    case Cfa::BP_DEREF:
    case Cfa::SP_DEREF: {
      uint64_t slot = (row.cfa == Cfa::BP_DEREF ? at.bp : at.sp) + offset;
      if (!readable(slot)) return Step::BOUNDS;
      Step step = leave(at, link, row, load(slot) + extra);
      link.flags |= slot < link.sp ? Link::ONCE : Link::READS_CFA;
      if (row.cfa == Cfa::BP_DEREF) link.flags |= Link::USES_BP;
      link.cfa_slot = slot;
      return step;
    }
    case Cfa::SIGNAL:
      return leave_signal(at);
    case Cfa::OUTERMOST:
      return Step::OUTERMOST;
    case Cfa::NONE:
      break;
  }
  return is_generated(rule.word) && by_prologue(at) ? Step::CALLER : Step::LOST;
}

// The kernel pushed a ucontext, right below which the handler's return address was: gregs come after flags, link and stack_t.
Step Stepper::leave_signal(Cursor& at) const noexcept {
  constexpr uint64_t kGregs = offsetof(ucontext_t, uc_mcontext.gregs);
  if (at.sp % 8 || !readable(at.sp + kGregs) || !readable(at.sp + kGregs + 8 * REG_RIP)) return Step::BOUNDS;
  auto* all = reinterpret_cast<const greg_t*>(at.sp + kGregs);
  auto sp = static_cast<uint64_t>(all[REG_RSP]);
  if (sp <= at.sp || sp >= high_) return Step::BOUNDS;  // the signal came on an alternate stack, or this is no signal frame
  at = {.pc = static_cast<uint64_t>(all[REG_RIP]), .sp = sp, .bp = static_cast<uint64_t>(all[REG_RBP]), .all = all, .exact = true, .guessed = false};
  return Step::CALLER;
}

bool Stepper::by_prologue(Cursor& at) noexcept {
  uint32_t row;
  uint64_t start;
  jit::Frame frame;
  if (!jit::find(at.exact ? at.pc : at.pc - 1, &row, &start) || !jit::frame_at(at.pc, start, at.exact, &frame)) return false;
  uint64_t cfa = at.sp + frame.cfa_offset, bp_slot = cfa + static_cast<uint64_t>(static_cast<int64_t>(frame.saved_bp));
  if (cfa > high_ || !readable(cfa - 8) || !may_return_to(load(cfa - 8))) return false;
  if (frame.saved_bp && !readable(bp_slot)) return false;
  if (frame.saved_bp) at.bp = load(bp_slot);
  return arrive(at, load(cfa - 8), cfa) == Step::CALLER;
}

// Searches upwards in the stack for a return address from which rules lead on: preferably to the thread's first frame, else a few steps.
bool Stepper::by_scan(Cursor& at, uint32_t least) noexcept {
  constexpr uint64_t kWords = 16384, kSaved = 6;
  uint32_t budget = 8192;  // limit of all steps tried: plausible garbage must not delay a handler
  Cursor best{};
  uint32_t best_steps = least - 1;
  uint64_t start = scan_start(at), end = start + 8 * kWords < high_ - 8 ? start + 8 * kWords : high_ - 8;
  for (uint64_t slot = start; slot <= end && budget; slot += 8) {
    uint64_t address = load(slot);
    if (!may_return_to(address)) continue;
    Cursor candidate{.pc = address, .sp = slot + 8, .bp = at.bp, .all = nullptr, .exact = false, .guessed = true};
    // rbp may still be the caller's, or be saved just below the return address.
    for (uint64_t saved = 0; saved <= kSaved; saved++) {
      if (saved) {
        if (!readable(slot - 8 * saved)) break;
        candidate.bp = load(slot - 8 * saved);
        if (candidate.bp <= slot || candidate.bp >= high_ || candidate.bp % 8) continue;
      }
      uint32_t steps = steps_out(candidate, budget);
      if (steps > best_steps) {
        best = candidate;
        best_steps = steps;
      }
      if (steps == kAllTheWay) break;
    }
    if (best_steps == kAllTheWay) break;
  }
  if (best_steps < least) return false;
  at = best;
  return true;
}

// Hand-written numeric kernels (OpenBLAS) put a page-aligned buffer with remains of older frames on the stack, and keep their original stack
// pointer in a register: the nearest one that points above.
uint64_t Stepper::scan_start(const Cursor& at) const noexcept {
  constexpr uint64_t kAligned = 1024;
  if (!at.all || at.sp % kAligned) return at.sp;
  uint64_t nearest = high_;
  for (int reg : {REG_RBX, REG_RBP, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15}) {
    auto value = static_cast<uint64_t>(at.all[reg]);
    if (value > at.sp && value < nearest && value % 8 == 0) nearest = value;
  }
  return nearest < high_ ? nearest : at.sp;
}

// How many steps rules lead on, each to an address that follows a call.
uint32_t Stepper::steps_out(Cursor at, uint32_t& budget) noexcept {
  for (uint32_t count = 0; budget; count++, budget--) {
    Link link{};
    Rule rule = state_.rule(at.pc, at.exact, generation_, true);
    Step step = by_rule(at, link, rule);
    if (step == Step::OUTERMOST) return may_begin_at(at.sp) ? kAllTheWay : count;
    if (step != Step::CALLER) return count;
    if (!at.exact && !may_return_to(at.pc)) return count;
  }
  return 0;
}

}  // namespace aiflame
