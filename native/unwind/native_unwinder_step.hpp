// One step of a walk: from a frame's registers to its caller's.
#pragma once
#include "unwind/modules.hpp"
#include "unwind/native_unwinder_state.hpp"

#include <cstring>

namespace aiflame {

struct Cursor {
  uint64_t pc, sp, bp;
  const greg_t* all;  // as in Registers
  bool exact;
  bool guessed;  // found by scanning
};

enum class Step : uint8_t {
  CALLER,
  OUTERMOST,  // a rule says so
  NO_RETURN,  // the return address is 0: how the outermost frame looks without such a rule, and how a wrong turn may look
  LOST,
  BOUNDS,
};

class Stepper {
 public:
  // Memory in [low, high) may be read.
  Stepper(NativeUnwinder::State& state, uint64_t low, uint64_t high) noexcept
      : state_(state), low_(low), high_(high), generation_(modules::generation()) {}

  uint64_t high() const noexcept { return high_; }
  uint32_t generation() const noexcept { return generation_; }

  // Describes the frame in `link` and moves `at` to its caller: by its rule, by the prologue of generated code, or by scanning.
  Step step(Cursor& at, Link& link) noexcept;

  // Whether this is the thread's first frame, as far as is known.
  bool may_begin_at(uint64_t sp) const noexcept { return state_.outermost_sp == 0 || state_.outermost_sp == sp; }

 private:
  bool readable(uint64_t address) const noexcept { return address >= low_ && address <= high_ - 8; }
  // Reads a word of the stack, where an address sanitizer forbids the words between variables. The address may be no multiple of 8.
  [[gnu::no_sanitize_address]] static uint64_t load(uint64_t address) noexcept {
    uint64_t word;
    memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
    return word;
  }

  Step by_rule(Cursor& at, Link& link, const Rule& rule) noexcept;
  Step leave(Cursor& at, Link& link, const eh_frame::Row& row, uint64_t cfa) const noexcept;
  Step leave_by_register(Cursor& at, Link& link, const eh_frame::Row& row) const noexcept;
  bool find_bp(Cursor& at, Link& link, const eh_frame::Row& row, uint64_t cfa) const noexcept;
  static Step arrive(Cursor& at, uint64_t pc, uint64_t sp) noexcept;
  Step leave_signal(Cursor& at) const noexcept;
  bool by_prologue(Cursor& at) noexcept;
  bool by_scan(Cursor& at, uint32_t least) noexcept;
  uint64_t scan_start(const Cursor& at) const noexcept;
  static constexpr uint32_t kAllTheWay = ~0u;
  static constexpr uint32_t kEnough = 5;
  uint32_t steps_out(Cursor at, uint32_t& budget) noexcept;

  NativeUnwinder::State& state_;
  uint64_t low_, high_;
  uint32_t generation_;
};

}  // namespace aiflame
