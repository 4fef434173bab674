// The debug offsets of an interpreter, field by field as CPython declares them, against those that we read.
//
// 3.14 may not be installed where this runs: the declaration stands in for it (Include/internal/pycore_debug_offsets.h).
#include "unwind/python_layout.hpp"

#include <cstdio>
#include <cstring>

using namespace aiflame::python;
using Word = uint64_t;

namespace {

struct Offsets3_13 {
  char cookie[8];
  Word version, free_threaded;
  struct {
    Word size, finalizing, interpreters_head;
  } runtime_state;
  struct {
    Word size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil, gil_runtime_state, gil_runtime_state_enabled,
        gil_runtime_state_locked, gil_runtime_state_holder;
  } interpreter_state;
  struct {
    Word size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
  } thread_state;
  struct {
    Word size, previous, executable, instr_ptr, localsplus, owner;
  } interpreter_frame;
  struct {
    Word size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames, localspluskinds, co_code_adaptive;
  } code_object;
  struct {
    Word size, ob_type;
  } pyobject;
  struct {
    Word size, tp_name, tp_repr, tp_flags;
  } type_object;
  struct {
    Word size, ob_item, ob_size;
  } tuple_object;
  struct {
    Word size, ob_item, ob_size;
  } list_object;
  struct {
    Word size, ma_keys, ma_values;
  } dict_object;
  struct {
    Word size, ob_fval;
  } float_object;
  struct {
    Word size, lv_tag, ob_digit;
  } long_object;
  struct {
    Word size, ob_size, ob_sval;
  } bytes_object;
  struct {
    Word size, state, length, asciiobject_size;
  } unicode_object;
};

struct Offsets3_14 {
  char cookie[8];
  Word version, free_threaded;
  struct {
    Word size, finalizing, interpreters_head;
  } runtime_state;
  struct {
    Word size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins, ceval_gil, gil_runtime_state, gil_runtime_state_enabled,
        gil_runtime_state_locked, gil_runtime_state_holder, code_object_generation, tlbc_generation;
  } interpreter_state;
  struct {
    Word size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
  } thread_state;
  struct {
    Word size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
  } interpreter_frame;
  struct {
    Word size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames, localspluskinds, co_code_adaptive, co_tlbc;
  } code_object;
  struct {
    Word size, ob_type;
  } pyobject;
  struct {
    Word size, tp_name, tp_repr, tp_flags;
  } type_object;
  struct {
    Word size, ob_item, ob_size;
  } tuple_object;
  struct {
    Word size, ob_item, ob_size;
  } list_object;
  struct {
    Word size, used, table, mask;
  } set_object;
  struct {
    Word size, ma_keys, ma_values;
  } dict_object;
  struct {
    Word size, ob_fval;
  } float_object;
  struct {
    Word size, lv_tag, ob_digit;
  } long_object;
  struct {
    Word size, ob_size, ob_sval;
  } bytes_object;
  struct {
    Word size, state, length, asciiobject_size;
  } unicode_object;
};

int failures = 0;

void expect(bool holds, const char* what, uint32_t version) {
  if (holds) return;
  printf("%x: %s\n", version, what);
  failures++;
}

// All words differ, so that a mistaken offset shows.
template <class Offsets>
Offsets numbered(uint32_t version) {
  Offsets offsets;
  auto* words = reinterpret_cast<Word*>(&offsets);
  for (size_t at = 0; at < sizeof offsets / 8; at++) words[at] = 1000 + at;
  memcpy(offsets.cookie, "xdebugpy", 8);
  offsets.version = static_cast<Word>(version) << 16 | 0xF0;
  offsets.free_threaded = 0;
  return offsets;
}

template <class Offsets>
bool layout(const Offsets& offsets, uint32_t version, Layout* out) {
  const char* reason = nullptr;
  bool known = layout_of(version, reinterpret_cast<const uint64_t*>(&offsets), out, &reason);
  expect(known || reason, "a refusal without a reason", version);
  return known;
}

template <class Offsets>
void check(uint32_t version) {
  auto offsets = numbered<Offsets>(version);
  Layout found;
  expect(layout(offsets, version, &found), "is known", version);
  expect(found.thread_frame == offsets.thread_state.current_frame, "current_frame", version);
  expect(found.runtime_interpreters == offsets.runtime_state.interpreters_head, "interpreters_head", version);
  expect(found.interpreter_next == offsets.interpreter_state.next, "interpreter's next", version);
  expect(found.interpreter_threads == offsets.interpreter_state.threads_head, "threads_head", version);
  expect(found.thread_previous == offsets.thread_state.prev && found.thread_next == offsets.thread_state.next, "prev, next", version);
  expect(found.thread_native_id == offsets.thread_state.native_thread_id, "native_thread_id", version);
  expect(found.frame_previous == offsets.interpreter_frame.previous, "previous", version);
  expect(found.frame_code == offsets.interpreter_frame.executable, "executable", version);
  expect(found.frame_instruction == offsets.interpreter_frame.instr_ptr, "instr_ptr", version);
  expect(found.frame_locals == offsets.interpreter_frame.localsplus, "localsplus", version);
  expect(found.frame_owner == offsets.interpreter_frame.owner, "owner", version);
  expect(found.code_filename == offsets.code_object.filename, "filename", version);
  expect(found.code_qualname == offsets.code_object.qualname, "qualname", version);
  expect(found.code_linetable == offsets.code_object.linetable, "linetable", version);
  expect(found.code_first_line == offsets.code_object.firstlineno, "firstlineno", version);
  expect(found.code_arguments == offsets.code_object.argcount, "argcount", version);
  expect(found.code_instructions == offsets.code_object.co_code_adaptive, "co_code_adaptive", version);
  expect(found.object_type == offsets.pyobject.ob_type, "ob_type", version);
  expect(found.object_size == offsets.tuple_object.ob_size, "ob_size", version);
  expect(found.bytes_data == offsets.bytes_object.ob_sval, "ob_sval", version);
  expect(found.text_state == offsets.unicode_object.state, "state", version);
  expect(found.text_length == offsets.unicode_object.length, "length", version);
  expect(found.text_ascii == offsets.unicode_object.asciiobject_size, "asciiobject_size", version);

  auto free_threaded = offsets;
  free_threaded.free_threaded = 1;
  expect(!layout(free_threaded, version, &found), "free-threaded is refused", version);
  auto other = offsets;
  other.version += 1 << 16;
  expect(!layout(other, version, &found), "another version's offsets are refused", version);
  auto foreign = offsets;
  foreign.cookie[0] = 'y';
  expect(!layout(foreign, version, &found), "no cookie is refused", version);
}

}  // namespace

int main() {
  check<Offsets3_13>(0x030d);
  check<Offsets3_14>(0x030e);
  Layout none;
  auto offsets = numbered<Offsets3_14>(0x030f);
  expect(!layout(offsets, 0x030f, &none), "is not known", 0x030f);
  expect(!layout(offsets, 0x0309, &none), "is not known", 0x0309);
  return failures != 0;
}
