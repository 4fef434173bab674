"""Offsets in the objects of an interpreter that nobody prepared, as the collector would publish them (`native/unwind/python_layout.cpp`),
and the place of its lock (the GIL)."""

from __future__ import annotations

import struct

from aiflame.profile.schema.interpreter_schema import PYTHON_LAYOUT, PythonChain
from aiflame.values import dataclass

_ALL_BITS, _NO_TAGS = (1 << 64) - 1, (1 << 64) - 8
_DEBUG_WORDS = 96
"""Words of `_Py_DebugOffsets` that are read."""
_GIL_HOLDER, _GIL_LOCKED, GIL_BYTES = 8, 16, 208


@dataclass(frozen=True, slots=True)
class Layout:
    at: dict[str, int]
    """Columns of `PYTHON_LAYOUT`."""
    gil: int
    """Offset of the GIL in `_PyRuntime` (up to 3.11), or of its address in an interpreter."""
    holder: int
    """Offset in the GIL of the thread state that took it last."""
    locked: int
    thread_id: int
    """Offset in a thread state of its pthread_t."""
    stack_end: int = 0
    """Offset in a frame of the end of its evaluation stack (3.14); 0: it is not known."""

    @property
    def gil_in_runtime(self) -> bool:
        return self.at["version"] < 0x030C


_COMMON = {"object_type": 8, "object_size": 16, "bytes_data": 32, "text_length": 16, "text_hash": 24, "text_state": 32, "cell_content": 16}

_3_10 = Layout(
    {
        **_COMMON, "version": 0x030A, "chain": PythonChain.FRAME_OBJECTS, "pointer_mask": _ALL_BITS,
        "runtime_interpreters": 32, "interpreter_next": 0, "interpreter_threads": 8, "thread_previous": 0, "thread_next": 8,
        "thread_frame": 24, "thread_cframe": 48, "thread_root_cframe": 264, "thread_id": 176, "cframe_previous": 8,
        "frame_code": 32, "frame_instruction": 96, "frame_previous": 24, "frame_locals": 352,
        "code_first_line": 40, "code_filename": 104, "code_qualname": 112, "code_linetable": 120, "code_arguments": 16,
        "text_ascii": 48, "text_compact": 72,
    },
    gil=352, holder=_GIL_HOLDER, locked=_GIL_LOCKED, thread_id=176,
)  # fmt: skip

_3_11 = Layout(
    {
        **_COMMON, "version": 0x030B, "chain": PythonChain.ENTRY_FLAGS, "pointer_mask": _ALL_BITS,
        "runtime_interpreters": 40, "interpreter_next": 0, "interpreter_threads": 16, "thread_previous": 0, "thread_next": 8,
        "thread_cframe": 56, "thread_id": 152, "thread_native_id": 160, "cframe_current": 8, "cframe_previous": 16,
        "frame_code": 32, "frame_instruction": 56, "frame_previous": 48, "frame_locals": 72, "frame_entry": 68,
        "code_first_line": 72, "code_filename": 112, "code_qualname": 128, "code_linetable": 136, "code_arguments": 56,
        "code_instructions": 184, "code_first_traceable": 168, "text_ascii": 48, "text_compact": 72,
    },
    gil=360, holder=_GIL_HOLDER, locked=_GIL_LOCKED, thread_id=152,
)  # fmt: skip

_3_12 = Layout(
    {
        **_COMMON, "version": 0x030C, "chain": PythonChain.CFRAME_SHIMS, "pointer_mask": _ALL_BITS,
        "runtime_interpreters": 40, "interpreter_next": 0, "interpreter_threads": 72, "thread_previous": 0, "thread_next": 8,
        "thread_cframe": 56, "thread_native_id": 144, "cframe_current": 0, "cframe_previous": 8,
        "frame_code": 0, "frame_instruction": 56, "frame_previous": 8, "frame_locals": 72, "frame_owner": 70, "shim_owner": 3,
        "code_first_line": 68, "code_filename": 112, "code_qualname": 128, "code_linetable": 136, "code_arguments": 52,
        "code_version": 92, "code_instructions": 192, "code_first_traceable": 176, "text_ascii": 40, "text_compact": 56,
    },
    gil=384, holder=_GIL_HOLDER, locked=_GIL_LOCKED, thread_id=136,
)  # fmt: skip

_INTERPRETERS, _INTERPRETER = 5, 6
"""Words of `_Py_DebugOffsets`, the first member of `_PyRuntime`: where its sub-structs begin. The first two are the same in 3.13 and
3.14."""


class UnknownInterpreterError(Exception):
    """Python frames cannot be read; the message is one line for people."""


def of_version(version: int, runtime: bytes) -> Layout:
    """`version` is PY_VERSION_HEX >> 16; `runtime` the beginning of `_PyRuntime`, which says it from 3.13 on."""
    if runtime[:8] == b"xdebugpy" and len(runtime) >= _DEBUG_WORDS * 8:
        words = struct.unpack_from(f"<{_DEBUG_WORDS}Q", runtime)
        version = words[1] >> 16
        if words[2] & 1:
            raise UnknownInterpreterError("Python frames are not shown: free-threaded builds of CPython are not supported yet")
        if version in (0x030D, 0x030E):
            return _by_debug_offsets(version, words)
    table = {0x030A: _3_10, 0x030B: _3_11, 0x030C: _3_12}.get(version)
    if table is None:
        name = f"{version >> 8}.{version & 255}" if version else "this version"
        raise UnknownInterpreterError(f"Python frames are not shown: {name} of CPython is not known (3.10 to 3.14 are)")
    return Layout({column.name: 0 for column in PYTHON_LAYOUT} | table.at, table.gil, table.holder, table.locked, table.thread_id)


def _by_debug_offsets(version: int, words: tuple[int, ...]) -> Layout:
    new = version >= 0x030E
    thread, frame, code, thing, table, data, text = (22, 31, 39, 50, 56, 74, 77) if new else (19, 28, 34, 44, 50, 64, 67)
    at = {column.name: 0 for column in PYTHON_LAYOUT} | {
        "version": version,
        "chain": int(PythonChain.SHIMS),
        "runtime_interpreters": words[_INTERPRETERS],
        "interpreter_next": words[_INTERPRETER + 2],
        "interpreter_threads": words[_INTERPRETER + 3],
        "thread_previous": words[thread + 1],
        "thread_next": words[thread + 2],
        "thread_frame": words[thread + 4],
        "thread_native_id": words[thread + 6],
        "frame_code": words[frame + 2],
        "frame_instruction": words[frame + 3],
        "frame_previous": words[frame + 1],
        "frame_locals": words[frame + 4],
        "frame_owner": words[frame + 5],
        "shim_owner": 3,
        "pointer_mask": _NO_TAGS if new else _ALL_BITS,
        "code_first_line": words[code + 5],
        "code_filename": words[code + 1],
        "code_qualname": words[code + 3],
        "code_linetable": words[code + 4],
        "code_arguments": words[code + 6],
        "code_version": words[code + 5] + 24,
        "code_instructions": words[code + 9],
        "code_first_traceable": words[code + 9] - 16,
        "object_type": words[thing + 1],
        "object_size": words[table + 2],
        "bytes_data": words[data + 2],
        "text_length": words[text + 2],
        "text_hash": words[text + 2] + 8,
        "text_state": words[text + 1],
        "text_ascii": words[text + 3],
        "text_compact": words[text + 3] + 16,
        "cell_content": words[thing],
    }
    if max(at[name] for name in at if name not in ("version", "pointer_mask")) >= 1 << 16:
        raise UnknownInterpreterError("Python frames are not shown: the interpreter's debug offsets are damaged")
    # ceval_gil, then the GIL's own place in the interpreter, enabled, locked, holder. In 3.14 one member more comes before them.
    first = _INTERPRETER + (9 if new else 8)
    own = words[first + 1]
    return Layout(at, words[first], words[first + 4] - own, words[first + 3] - own, words[thread + 5],
                  words[frame + 6] if new else 0)  # fmt: skip
