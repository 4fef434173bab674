#include "unwind/python_layout.hpp"

#include <cstring>

namespace aiflame::python {

namespace {

// Taken with offsetof() from the headers of 3.10.13, 3.11.7 and 3.12.1, x86_64; a minor version keeps its layout.
constexpr Layout k3_10 = {
    .version = 0x030a,
    .chain = static_cast<uint16_t>(Chain::FRAME_OBJECTS),
    .runtime_interpreters = 32,
    .interpreter_next = 0,
    .interpreter_threads = 8,
    .thread_previous = 0,
    .thread_next = 8,
    .thread_frame = 24,
    .thread_cframe = 48,
    .thread_root_cframe = 264,
    .thread_id = 176,
    .cframe_previous = 8,
    .frame_code = 32,
    .frame_instruction = 96,
    .frame_previous = 24,
    .frame_locals = 352,
    .pointer_mask = ~0ull,
    .code_first_line = 40,
    .code_filename = 104,
    .code_qualname = 112,
    .code_linetable = 120,
    .code_arguments = 16,
    .object_type = 8,
    .object_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_hash = 24,
    .text_state = 32,
    .text_ascii = 48,
    .text_compact = 72,
    .cell_content = 16,
};

constexpr Layout k3_11 = {
    .version = 0x030b,
    .chain = static_cast<uint16_t>(Chain::ENTRY_FLAGS),
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 16,
    .thread_previous = 0,
    .thread_next = 8,
    .thread_cframe = 56,
    .thread_id = 152,
    .thread_native_id = 160,
    .cframe_current = 8,
    .cframe_previous = 16,
    .frame_code = 32,
    .frame_instruction = 56,
    .frame_previous = 48,
    .frame_locals = 72,
    .frame_entry = 68,
    .pointer_mask = ~0ull,
    .code_first_line = 72,
    .code_filename = 112,
    .code_qualname = 128,
    .code_linetable = 136,
    .code_arguments = 56,
    .code_instructions = 184,
    .code_first_traceable = 168,
    .object_type = 8,
    .object_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_hash = 24,
    .text_state = 32,
    .text_ascii = 48,
    .text_compact = 72,
    .cell_content = 16,
};

constexpr Layout k3_12 = {
    .version = 0x030c,
    .chain = static_cast<uint16_t>(Chain::CFRAME_SHIMS),
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 72,
    .thread_previous = 0,
    .thread_next = 8,
    .thread_cframe = 56,
    .thread_native_id = 144,
    .cframe_current = 0,
    .cframe_previous = 8,
    .frame_code = 0,
    .frame_instruction = 56,
    .frame_previous = 8,
    .frame_locals = 72,
    .frame_owner = 70,
    .shim_owner = 3,  // FRAME_OWNED_BY_CSTACK
    .pointer_mask = ~0ull,
    .code_first_line = 68,
    .code_filename = 112,
    .code_qualname = 128,
    .code_linetable = 136,
    .code_arguments = 52,
    .code_version = 92,
    .code_instructions = 192,
    .code_first_traceable = 176,
    .object_type = 8,
    .object_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_hash = 24,
    .text_state = 32,
    .text_ascii = 40,
    .text_compact = 56,
    .cell_content = 16,
};

// Where the sub-structs of _Py_DebugOffsets, the first member of _PyRuntime, begin, in words (Include/internal/pycore_runtime.h of
// 3.13, pycore_debug_offsets.h of 3.14). Inside those that we read, a later version only appends.
constexpr uint32_t kInterpreters = 5, kInterpreter = 6;
struct Words {
  uint32_t thread, frame, code, object, tuple, bytes, text;
};
constexpr Words k3_13_words = {.thread = 19, .frame = 28, .code = 34, .object = 44, .tuple = 50, .bytes = 64, .text = 67};
constexpr Words k3_14_words = {.thread = 22, .frame = 31, .code = 39, .object = 50, .tuple = 56, .bytes = 74, .text = 77};

Layout from_debug_offsets(uint32_t version, const uint64_t* at, const Words& words) noexcept {
  auto offset = [at](uint32_t word) { return static_cast<uint16_t>(at[word]); };
  return {
      .version = version,
      .chain = static_cast<uint16_t>(Chain::SHIMS),
      .runtime_interpreters = offset(kInterpreters),
      .interpreter_next = offset(kInterpreter + 2),
      .interpreter_threads = offset(kInterpreter + 3),
      .thread_previous = offset(words.thread + 1),
      .thread_next = offset(words.thread + 2),
      .thread_frame = offset(words.thread + 4),
      .thread_native_id = offset(words.thread + 6),
      .frame_code = offset(words.frame + 2),
      .frame_instruction = offset(words.frame + 3),
      .frame_previous = offset(words.frame + 1),
      .frame_locals = offset(words.frame + 4),
      .frame_owner = offset(words.frame + 5),
      .shim_owner = 3,  // 3.13: FRAME_OWNED_BY_CSTACK; 3.14: FRAME_OWNED_BY_INTERPRETER, and CSTACK is 4
      .pointer_mask = version >= 0x030e ? ~7ull : ~0ull,
      .code_first_line = offset(words.code + 5),
      .code_filename = offset(words.code + 1),
      .code_qualname = offset(words.code + 3),
      .code_linetable = offset(words.code + 4),
      .code_arguments = offset(words.code + 6),
      // Not among the debug offsets; it follows six ints in both versions.
      .code_version = static_cast<uint16_t>(offset(words.code + 5) + 24),
      .code_instructions = offset(words.code + 9),
      // Not among the debug offsets; in both versions an int and a pointer (co_extra) come before the instructions.
      .code_first_traceable = static_cast<uint16_t>(offset(words.code + 9) - 16),
      .object_type = offset(words.object + 1),
      .object_size = offset(words.tuple + 2),
      .bytes_data = offset(words.bytes + 2),
      .text_length = offset(words.text + 2),
      .text_hash = static_cast<uint16_t>(offset(words.text + 2) + 8),
      .text_state = offset(words.text + 1),
      .text_ascii = offset(words.text + 3),
      // Not among the debug offsets; PyCompactUnicodeObject adds utf8_length and utf8.
      .text_compact = static_cast<uint16_t>(offset(words.text + 3) + 16),
      .cell_content = static_cast<uint16_t>(offset(words.object)),
  };
}

}  // namespace

bool layout_of(uint32_t version, const uint64_t* runtime, Layout* out, const char** reason) noexcept {
  switch (version) {
    case 0x030a:
      *out = k3_10;
      return true;
    case 0x030b:
      *out = k3_11;
      return true;
    case 0x030c:
      *out = k3_12;
      return true;
    case 0x030d:
    case 0x030e:
      break;
    default:
      *reason = "Python frames are not read: this version of CPython is not known (3.10 to 3.14 are)";
      return false;
  }
  if (!runtime || memcmp(runtime, "xdebugpy", 8) != 0 || runtime[1] >> 16 != version) {
    *reason = "Python frames are not read: the interpreter does not tell its debug offsets";
    return false;
  }
  if (runtime[2] & 1) {
    *reason = "Python frames are not read: free-threaded builds of CPython are not supported yet";
    return false;
  }
  *out = from_debug_offsets(version, runtime, version == 0x030d ? k3_13_words : k3_14_words);
  return true;
}

}  // namespace aiflame::python
