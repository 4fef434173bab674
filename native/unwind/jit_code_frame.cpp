// Generated code has no unwind tables, but it opens and closes its frames with the few instructions that every compiler uses.
#include "base/safe_load.hpp"
#include "unwind/jit_code.hpp"

#include <cstring>

namespace aiflame::jit {

namespace {

constexpr uint32_t kWindow = 96;  // bytes of code looked at

struct Code {
  uint8_t bytes[kWindow];
  explicit Code(uint64_t address) noexcept {
    for (uint32_t at = 0; at < kWindow; at += 8) {
      uint64_t word = safe_load(address + at);
      memcpy(bytes + at, &word, 8);
    }
  }
  template <class Number>
  Number number(uint32_t at) const noexcept {
    Number value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
  }
};

// Length of a register push or pop (opcode base 0x50 or 0x58), 0 for other instructions; `reg` counts to 15.
uint32_t push_or_pop(const uint8_t* code, uint8_t base, uint32_t* reg) noexcept {
  bool high = code[0] == 0x41;
  uint8_t op = code[high];
  if (op < base || op > base + 7) return 0;
  *reg = (high ? 8u : 0u) + (op - base);
  return high ? 2 : 1;
}

// add/sub rsp, imm: ModRM 0xc4 adds, 0xec subtracts. 0 for other instructions.
uint32_t adjust(const Code& code, uint32_t at, uint8_t modrm, int32_t* bytes) noexcept {
  const uint8_t* op = code.bytes + at;
  if (op[0] != 0x48 || op[2] != modrm) return 0;
  if (op[1] == 0x83) return *bytes = static_cast<int8_t>(op[3]), 4;
  if (op[1] == 0x81) return *bytes = code.number<int32_t>(at + 3), 7;
  return 0;
}

// Instructions among the prologue's that move no stack pointer: endbr64, mov rbp, rsp, mov ebp, imm, and loads of arguments.
uint32_t harmless(const Code& code, uint32_t at) noexcept {
  const uint8_t* op = code.bytes + at;
  if (op[0] == 0xf3 && op[1] == 0x0f && op[2] == 0x1e && op[3] == 0xfa) return 4;
  if (op[0] == 0x48 && op[1] == 0x89 && op[2] == 0xe5) return 3;
  if (op[0] == 0x48 && op[1] == 0x8b && op[2] == 0xec) return 3;
  if (op[0] == 0xbd) return 5;
  bool wide = (op[0] & 0xf8) == 0x48;
  bool to_rsp = ((op[2] >> 3) & 7) == 4 && !(op[0] & 4);
  if (wide && op[1] == 0x8b && !to_rsp) {
    uint32_t mode = op[2] >> 6, sib = (op[2] & 7) == 4 && mode != 3;
    if (mode == 0 && (op[2] & 7) == 5) return 7;
    return 3 + sib + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
  }
  return 0;
}

constexpr uint32_t kRbp = 5;

// Runs the prologue up to `stop` bytes into the method.
Frame after_prologue(const Code& code, uint32_t stop) noexcept {
  Frame frame{.cfa_offset = 8, .saved_bp = 0};
  for (uint32_t at = 0; at + 8 <= kWindow && at < stop;) {
    uint32_t reg, length;
    int32_t bytes;
    if ((length = push_or_pop(code.bytes + at, 0x50, &reg))) {
      frame.cfa_offset += 8;
      if (reg == kRbp && !frame.saved_bp) frame.saved_bp = -static_cast<int32_t>(frame.cfa_offset);
    } else if ((length = adjust(code, at, 0xec, &bytes))) {
      frame.cfa_offset += static_cast<uint32_t>(bytes);
    } else if (!(length = harmless(code, at))) {
      break;
    }
    at += length;
  }
  return frame;
}

// If only an epilogue is left to run (vzeroupper, add rsp, pops, ret): its effect.
bool before_epilogue(uint64_t pc, Frame* out) noexcept {
  Code code(pc);
  uint32_t offset = 0, bp_at = 0;
  bool has_bp = false;
  for (uint32_t at = 0; at + 8 <= kWindow;) {
    uint32_t reg, length;
    int32_t bytes;
    if (code.bytes[at] == 0xc3 || code.bytes[at] == 0xc2) {
      *out = {.cfa_offset = offset + 8, .saved_bp = has_bp ? static_cast<int32_t>(bp_at) - static_cast<int32_t>(offset + 8) : 0};
      return true;
    }
    if ((length = push_or_pop(code.bytes + at, 0x58, &reg))) {
      if (reg == kRbp) bp_at = offset, has_bp = true;
      offset += 8;
    } else if ((length = adjust(code, at, 0xc4, &bytes))) {
      offset += static_cast<uint32_t>(bytes);
    } else if (code.bytes[at] == 0xc5 && code.bytes[at + 1] == 0xf8 && code.bytes[at + 2] == 0x77) {
      length = 3;
    } else {
      return false;
    }
    at += length;
  }
  return false;
}

}  // namespace

bool frame_at(uint64_t pc, uint64_t start, bool exact, Frame* out) noexcept {
  if (exact && before_epilogue(pc, out)) return true;
  uint64_t stop = pc - start;
  *out = after_prologue(Code(start), stop < kWindow ? static_cast<uint32_t>(stop) : kWindow);
  return out->cfa_offset % 8 == 0 && out->cfa_offset < (1u << 24);
}

}  // namespace aiflame::jit
