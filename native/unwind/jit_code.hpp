// Code that was generated at run time and reported to us (by oneDNN through the JIT-profiling interface, by other hooks).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aiflame::jit {

struct Line {
  uint32_t offset, line;
};

// Registers a method: writes its row and remembers its range. Not for signal handlers.
void add(std::string_view name, std::string_view source, uint64_t address, uint64_t size, const Line* lines, size_t line_count) noexcept;
void remove(uint64_t address) noexcept;

// The method at pc: its row and its start.
bool find(uint64_t pc, uint32_t* row, uint64_t* start) noexcept;

// The location of a method's caller, derived from the method's own instructions.
struct Frame {
  uint32_t cfa_offset;  // the CFA is rsp + this
  int32_t saved_bp;     // rbp is saved at CFA + this; 0: rbp is the caller's
};

// For the instruction at pc in the method that starts at `start`. `exact`: pc is about to run, not a return address. The result is a guess (a body
// may move the stack pointer): callers check that a return address is in the expected place.
bool frame_at(uint64_t pc, uint64_t start, bool exact, Frame* out) noexcept;

// The child of a fork writes tables of its own: its methods get new rows.
void forget_rows() noexcept;

}  // namespace aiflame::jit
