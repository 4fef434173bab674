"""Addresses in a Python interpreter, and offsets in its objects. The collector publishes them in its own memory under the symbol `SYMBOL`,
where the recorder reads them. The C++ header of the collector is generated from this file too."""

from __future__ import annotations

from enum import IntEnum

from aiflame.profile.schema.records import Column, columns
from aiflame.profile.schema.records import Type as T

SYMBOL = b"aiflame_interpreter"
INTERPRETER_MAGIC = b"AIFLAMEP"


class PythonChain(IntEnum):
    """How the frames of a thread are linked, and how the outermost frame of each call of the evaluator (a C function) is marked."""

    FRAME_OBJECTS = 1
    """3.10: a list of frame objects; each has its own call of the evaluator, with a CFrame on the C stack"""
    ENTRY_FLAGS = 2
    """3.11: interpreter frames with an is_entry flag; a CFrame for each call of the evaluator"""
    CFRAME_SHIMS = 3
    """3.12: a shim frame on the C stack ends the frames of each call of the evaluator, which also has a CFrame"""
    SHIMS = 4
    """3.13 and later: the same without CFrames"""


PYTHON_LAYOUT: tuple[Column, ...] = columns(
    ("version", T.U32, "PY_VERSION_HEX >> 16"),
    ("chain", T.U16, "PythonChain"),
    ("runtime_interpreters", T.U16, "_PyRuntimeState: interpreters.head"),
    ("interpreter_next", T.U16, "PyInterpreterState: next"),
    ("interpreter_threads", T.U16, "… the first of its thread states"),
    ("thread_previous", T.U16, "PyThreadState: prev"),
    ("thread_next", T.U16, "… next"),
    ("thread_frame", T.U16, "… frame (3.10), current_frame (3.13 and later)"),
    ("thread_cframe", T.U16, "… cframe (up to 3.12)"),
    ("thread_root_cframe", T.U16, "… root_cframe (3.10)"),
    ("thread_id", T.U16, "… thread_id, a pthread_t (used up to 3.11)"),
    ("thread_native_id", T.U16, "… native_thread_id; 0: it has none (3.10)"),
    ("cframe_current", T.U16, "CFrame, _PyCFrame"),
    ("cframe_previous", T.U16, ""),
    ("frame_code", T.U16, ""),
    ("frame_instruction", T.U16, "3.10: f_lasti, an index"),
    ("frame_previous", T.U16, ""),
    ("frame_locals", T.U16, ""),
    ("frame_owner", T.U16, "from 3.12"),
    ("shim_owner", T.U16, "the lowest value of an owner that means a shim"),
    ("frame_entry", T.U16, "3.11: is_entry"),
    ("pointer_mask", T.U64, "3.14 keeps tags in the low bits of a frame's references"),
    ("code_first_line", T.U16, ""),
    ("code_filename", T.U16, ""),
    ("code_qualname", T.U16, ""),
    ("code_linetable", T.U16, ""),
    ("code_arguments", T.U16, ""),
    ("code_version", T.U16, "from 3.12: a number unique to the code object; else 0"),
    ("code_instructions", T.U16, "co_code_adaptive; 3.10: unused"),
    ("code_first_traceable", T.U16, "0: none (3.10)"),
    ("object_type", T.U16, "ob_type"),
    ("object_size", T.U16, "ob_size"),
    ("bytes_data", T.U16, ""),
    ("text_length", T.U16, "PyUnicodeObject"),
    ("text_hash", T.U16, ""),
    ("text_state", T.U16, ""),
    ("text_ascii", T.U16, "where its characters begin"),
    ("text_compact", T.U16, "… that are not all ASCII"),
    ("cell_content", T.U16, ""),
)
"""Offsets in the interpreter's objects. `native/unwind/python_layout.cpp` has a table of them for each minor version."""

INTERPRETER: tuple[Column, ...] = columns(
    ("magic", T.U64, "INTERPRETER_MAGIC; 0: there is no interpreter that we can read"),
    ("runtime", T.U64, "address of _PyRuntime"),
    ("code_type", T.U64, "address of PyCode_Type, which distinguishes a code object from stale memory"),
    ("text_type", T.U64, ""),
    ("bytes_type", T.U64, ""),
)
"""The columns in front of `PYTHON_LAYOUT`."""
