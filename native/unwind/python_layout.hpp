// The places in the interpreter's memory that we read: one table of offsets for each minor version of CPython.
#pragma once
#include <cstdint>

namespace aiflame::python {

// How the frames of a thread are linked, and how the outermost frame of a native evaluator is marked.
enum class Chain : uint8_t {
  FRAME_OBJECTS,  // 3.10: a list of frame objects; one evaluator, and one CFrame on its stack, for each
  ENTRY_FLAGS,    // 3.11: interpreter frames with an is_entry flag; a CFrame for each evaluator
  CFRAME_SHIMS,   // 3.12: a shim frame on the evaluator's stack ends its group; a CFrame for each evaluator too
  SHIMS,          // 3.13 and later: the same without CFrames
};

struct Layout {
  uint32_t version;  // PY_VERSION_HEX >> 16
  Chain chain;
  uint16_t thread_frame;                     // PyThreadState: frame (3.10), current_frame (3.13 and later)
  uint16_t thread_cframe;                    // … cframe (up to 3.12)
  uint16_t thread_root_cframe;               // … root_cframe (3.10)
  uint16_t thread_id;                        // … thread_id, a pthread_t (used up to 3.11)
  uint16_t cframe_current, cframe_previous;  // CFrame, _PyCFrame
  uint16_t frame_code, frame_instruction, frame_previous, frame_locals;
  uint16_t frame_owner, shim_owner;  // from 3.12: owner, and the lowest value that means a shim
  uint16_t frame_entry;              // 3.11: is_entry
  uint64_t pointer_mask;             // 3.14 keeps tags in the low bits of a frame's references
  uint16_t code_first_line, code_filename, code_qualname, code_linetable, code_arguments;
  uint16_t code_version;              // from 3.12: a number that no other code object has; else 0
  uint16_t code_instructions;         // co_code_adaptive; 3.10: unused (its f_lasti is an index)
  uint16_t code_first_traceable;      // 0: none (3.10)
  uint16_t object_type, object_size;  // ob_type, ob_size
  uint16_t bytes_data;
  uint16_t text_length, text_hash, text_state, text_ascii, text_compact;  // PyUnicodeObject; where its characters begin
  uint16_t cell_content;
};

// The layout of `version` (PY_VERSION_HEX >> 16); from 3.13 on it comes from the debug offsets at the start of `runtime`, which is
// _PyRuntime. False, and the reason in one line, for an interpreter that we cannot read.
bool layout_of(uint32_t version, const uint64_t* runtime, Layout* out, const char** reason) noexcept;

}  // namespace aiflame::python
