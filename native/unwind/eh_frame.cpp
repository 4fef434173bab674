#include "unwind/eh_frame.hpp"

#include "base/assertion.hpp"
#include "unwind/eh_frame_reader.hpp"

#include <ucontext.h>
#include <algorithm>
#include <cstring>

namespace aiflame::eh_frame {

namespace {

constexpr uint64_t kBp = 6, kSp = 7, kReturnAddress = 16;  // DWARF's register numbers (System V ABI, AMD64)

// The last function that starts at or before `pc`; nullptr when all start later.
const modules::IndexEntry* search(const modules::Module& module, uint64_t vaddr) noexcept {
  auto key = static_cast<int64_t>(vaddr - module.index_vaddr);
  uint32_t first = 0, last = module.index_count;
  while (first < last) {
    uint32_t middle = first + (last - first) / 2;
    if (module.index[middle].pc <= key)
      first = middle + 1;
    else
      last = middle;
  }
  return first ? &module.index[first - 1] : nullptr;
}

// The state that the call frame instructions have built so far.
struct Rules {
  uint64_t cfa_register = kSp;
  int64_t cfa_offset = 8;
  Cfa cfa_kind = Cfa::REGISTER;  // REGISTER stands for all of register + offset
  int64_t cfa_extra = 0;
  Bp bp = Bp::SAME;
  int64_t bp_offset = 0;
  bool outermost = false;  // the return address is undefined
  bool unknown = false;    // the return address is somewhere that we do not follow
  int return_greg = -1;    // the register that has it, as a place in ucontext's gregs; -1: it is in memory
};

// Place of a DWARF register in ucontext's gregs, -1 for others.
int greg_of(uint64_t dwarf) noexcept {
  constexpr int8_t kPlace[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return dwarf < sizeof kPlace ? kPlace[dwarf] : -1;
}

void set_saved(Rules& rules, uint64_t reg, int64_t offset) noexcept {
  if (reg == kBp) rules.bp = Bp::AT_CFA, rules.bp_offset = offset;
  if (reg == kReturnAddress) rules.unknown = offset != -8, rules.outermost = false, rules.return_greg = -1;
}

void set_register(Rules& rules, uint64_t reg, uint64_t holder) noexcept {
  if (reg == kBp) rules.bp = Bp::LOST;
  if (reg == kReturnAddress) rules.return_greg = greg_of(holder), rules.unknown = rules.return_greg < 0, rules.outermost = false;
}

void set_lost(Rules& rules, uint64_t reg) noexcept {
  if (reg == kBp) rules.bp = Bp::LOST;
  if (reg == kReturnAddress) rules.unknown = true;
}

void set_undefined(Rules& rules, uint64_t reg) noexcept {
  if (reg == kBp) rules.bp = Bp::LOST;
  if (reg == kReturnAddress) rules.outermost = true;
}

void set_same(Rules& rules, uint64_t reg) noexcept {
  if (reg == kBp) rules.bp = Bp::SAME;
}

void restore(Rules& rules, const Rules& initial, uint64_t reg) noexcept {
  if (reg == kBp) rules.bp = initial.bp, rules.bp_offset = initial.bp_offset;
  if (reg == kReturnAddress) rules.outermost = initial.outermost, rules.unknown = initial.unknown, rules.return_greg = initial.return_greg;
}

// The linker's rule for a PLT entry: rsp + 8 + ((rip & 15) >= N ? 8 : 0), N as a literal in byte 6 (0x30 + N).
constexpr uint8_t kPlt[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};

bool is_plt(const uint8_t* bytes, uint64_t length) noexcept {
  if (length != sizeof kPlt) return false;
  for (uint64_t at = 0; at < length; at++)
    if (at == 6 ? bytes[at] < 0x30 || bytes[at] > 0x3f : bytes[at] != kPlt[at]) return false;
  return true;
}

// The other expressions that compilers and hand-written assembly use for a CFA: breg6 or breg7, deref, and perhaps plus_uconst.
void set_cfa_expression(Rules& rules, Reader expression) noexcept {
  constexpr uint8_t kBreg6 = 0x76, kBreg7 = 0x77, kDeref = 0x06, kPlusUconst = 0x23;
  rules.cfa_kind = Cfa::NONE;
  if (is_plt(expression.at(), expression.left())) {
    rules.cfa_kind = Cfa::PLT;
    rules.cfa_offset = expression.at()[6] - 0x30;
    return;
  }
  auto op = expression.fixed<uint8_t>();
  if (op != kBreg6 && op != kBreg7) return;
  int64_t offset = expression.sleb();
  if (expression.fixed<uint8_t>() != kDeref || !expression.ok()) return;
  int64_t extra = 0;
  if (expression.left()) {
    if (expression.fixed<uint8_t>() != kPlusUconst) return;
    extra = static_cast<int64_t>(expression.uleb());
    if (!expression.ok() || expression.left()) return;
  }
  rules.cfa_kind = op == kBreg6 ? Cfa::BP_DEREF : Cfa::SP_DEREF;
  rules.cfa_offset = offset;
  rules.cfa_extra = extra;
}

void set_expression(Rules& rules, uint64_t reg, Reader expression) noexcept {
  set_lost(rules, reg);
  if (reg != kBp || expression.fixed<uint8_t>() != 0x76 /* breg6 */) return;
  int64_t offset = expression.sleb();
  if (!expression.ok() || expression.left()) return;
  rules.bp = Bp::AT_BP;
  rules.bp_offset = offset;
}

// Runs call frame instructions until they describe a later instruction than `stop`. False when one is unknown.
class Machine {
 public:
  Machine(const Cie& cie, uint64_t vaddr, uint64_t stop) noexcept : cie_(cie), vaddr_(vaddr), stop_(stop) {}

  bool run(Reader instructions) noexcept {
    while (instructions.left() && instructions.ok()) {
      uint64_t from = vaddr_;
      if (!execute(instructions)) return false;
      if (vaddr_ > stop_) return true;
      if (vaddr_ < from) return false;
    }
    return instructions.ok();
  }
  void start_function() noexcept { initial_ = rules; }

  Rules rules;

 private:
  bool execute(Reader& in) noexcept {
    auto op = in.fixed<uint8_t>();
    uint64_t low = op & 63;
    switch (op >> 6) {
      case 1:
        return advance(low);
      case 2:
        set_saved(rules, low, scaled(in.uleb()));
        return true;
      case 3:
        restore(rules, initial_, low);
        return true;
      default:
        return execute_extended(op, in);
    }
  }

  bool execute_extended(uint8_t op, Reader& in) noexcept {
    uint64_t reg, length;
    switch (op) {
      case 0x00:
        return true;  // nop
      case 0x01:
        return jump(in.pointer(cie_.pointer_encoding));  // set_loc
      case 0x02:
        return advance(in.fixed<uint8_t>());  // advance_loc1
      case 0x03:
        return advance(in.fixed<uint16_t>());  // advance_loc2
      case 0x04:
        return advance(in.fixed<uint32_t>());  // advance_loc4
      case 0x05:
        reg = in.uleb();
        set_saved(rules, reg, scaled(in.uleb()));
        return true;  // offset_extended
      case 0x06:
        restore(rules, initial_, in.uleb());
        return true;  // restore_extended
      case 0x07:
        set_undefined(rules, in.uleb());
        return true;  // undefined
      case 0x08:
        set_same(rules, in.uleb());
        return true;  // same_value
      case 0x09:
        reg = in.uleb();
        set_register(rules, reg, in.uleb());
        return true;  // register
      case 0x0a:
        return remember();  // remember_state
      case 0x0b:
        return recall();  // restore_state
      case 0x0c:
        reg = in.uleb();
        define_cfa(reg, static_cast<int64_t>(in.uleb()));
        return true;  // def_cfa
      case 0x0d:
        define_cfa(in.uleb(), rules.cfa_offset);
        return true;  // def_cfa_register
      case 0x0e:
        rules.cfa_offset = static_cast<int64_t>(in.uleb());
        return true;  // def_cfa_offset
      case 0x0f:
        length = in.uleb();
        set_cfa_expression(rules, in.take(length));
        return true;  // def_cfa_expression
      case 0x10:
        reg = in.uleb();
        length = in.uleb();
        set_expression(rules, reg, in.take(length));
        return true;  // expression
      case 0x11:
        reg = in.uleb();
        set_saved(rules, reg, in.sleb() * cie_.data_factor);
        return true;  // offset_extended_sf
      case 0x12:
        reg = in.uleb();
        define_cfa(reg, in.sleb() * cie_.data_factor);
        return true;  // def_cfa_sf
      case 0x13:
        rules.cfa_offset = in.sleb() * cie_.data_factor;
        return true;  // def_cfa_offset_sf
      case 0x14:
        reg = in.uleb();
        in.uleb();
        set_lost(rules, reg);
        return true;  // val_offset
      case 0x15:
        reg = in.uleb();
        in.sleb();
        set_lost(rules, reg);
        return true;  // val_offset_sf
      case 0x16:
        reg = in.uleb();
        length = in.uleb();
        in.take(length);
        set_lost(rules, reg);
        return true;  // val_expression
      case 0x2e:
        in.uleb();
        return true;  // GNU_args_size
      case 0x2f:
        reg = in.uleb();
        set_saved(rules, reg, -scaled(in.uleb()));
        return true;  // GNU_negative_offset_extended
      default:
        return false;
    }
  }

  int64_t scaled(uint64_t factored) const noexcept { return static_cast<int64_t>(factored * static_cast<uint64_t>(cie_.data_factor)); }
  void define_cfa(uint64_t reg, int64_t offset) noexcept {
    rules.cfa_kind = Cfa::REGISTER;
    rules.cfa_register = reg;
    rules.cfa_offset = offset;
  }
  bool advance(uint64_t by) noexcept { return jump(vaddr_ + by * cie_.code_factor); }
  bool jump(uint64_t to) noexcept {
    vaddr_ = to;
    return true;
  }
  bool remember() noexcept {
    if (depth_ == kDepth) return false;
    saved_[depth_++] = rules;
    return true;
  }
  bool recall() noexcept {
    if (depth_ == 0) return false;
    AIFLAME_ASSERT(depth_ > 0 && depth_ <= kDepth);
    rules = saved_[--depth_];
    return true;
  }

  static constexpr int kDepth = 8;
  const Cie& cie_;
  uint64_t vaddr_, stop_;
  Rules initial_, saved_[kDepth];
  int depth_ = 0;
};

bool fits(int64_t value, int64_t limit) noexcept { return value >= -limit && value < limit; }

Row pack(const Rules& rules) noexcept {
  if (rules.outermost) return {.cfa = Cfa::OUTERMOST};
  if (rules.unknown || !fits(rules.cfa_offset, INT32_MAX) || !fits(rules.cfa_extra, INT32_MAX)) return {};
  Row row{.cfa = rules.cfa_kind, .cfa_offset = static_cast<int32_t>(rules.cfa_offset), .cfa_extra = static_cast<int32_t>(rules.cfa_extra)};
  if (rules.cfa_kind == Cfa::REGISTER) {
    row.cfa_extra = greg_of(rules.cfa_register);
    if (row.cfa_extra < 0) return {};
    if (rules.cfa_register == kSp) row.cfa = Cfa::SP;
    if (rules.cfa_register == kBp) row.cfa = Cfa::BP;
  }
  if (rules.return_greg >= 0) {
    if (row.cfa != Cfa::SP) return {};
    row.cfa = Cfa::RETURNING;
    row.cfa_extra = rules.return_greg;
  }
  row.bp = rules.bp;
  if (rules.bp == Bp::AT_CFA || rules.bp == Bp::AT_BP) {
    if (rules.bp_offset % 8 || !fits(rules.bp_offset / 8, INT16_MAX))
      row.bp = Bp::LOST;
    else
      row.bp_words = static_cast<int16_t>(rules.bp_offset / 8);
  }
  return row;
}

}  // namespace

Row find_row(const modules::Module& module, uint64_t pc) noexcept {
  uint64_t vaddr = pc - module.base;
  const modules::IndexEntry* entry = module.index ? search(module, vaddr) : nullptr;
  if (!entry) return {};
  View view{module.tables, module.tables_vaddr, module.tables_bytes};
  Fde fde;
  if (!read_fde(view, module.index_vaddr + static_cast<uint64_t>(static_cast<int64_t>(entry->fde)), &fde)) return {};
  if (vaddr < fde.low || vaddr >= fde.high) return {};
  if (fde.cie.signal) return {.cfa = Cfa::SIGNAL};
  Machine machine(fde.cie, fde.low, vaddr);
  if (!machine.run(fde.cie.instructions)) return {};
  machine.start_function();
  if (!machine.run(fde.instructions)) return {};
  return pack(machine.rules);
}

size_t index_section(const uint8_t* section, uint64_t vaddr, uint64_t bytes, modules::IndexEntry* out, size_t room) noexcept {
  View view{section, vaddr, bytes};
  size_t count = 0;
  for (uint64_t at = vaddr, next; (next = next_entry(view, at)) != 0; at = next) {
    Fde fde;
    if (!read_fde(view, at, &fde)) continue;
    auto pc = static_cast<int64_t>(fde.low - vaddr);
    if (!fits(pc, INT32_MAX)) continue;
    if (count < room) out[count] = {static_cast<int32_t>(pc), static_cast<int32_t>(at - vaddr)};
    count++;
  }
  if (count <= room) std::sort(out, out + count, [](const auto& left, const auto& right) { return left.pc < right.pc; });
  return count;
}

}  // namespace aiflame::eh_frame
