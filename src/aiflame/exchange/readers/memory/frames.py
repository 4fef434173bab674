"""Frames as torch's snapshots write them: a dict with name, filename and line, innermost first, Python and C++ mixed."""

from __future__ import annotations

import re
from typing import Any

from aiflame.exchange.readers.frames import NamedFrame, PythonFrame
from aiflame.exchange.readers.memory.replay import whole
from aiflame.exchange.readers.sampled.samples import DEEPEST, Sampled, native_kind
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.resolve.names.torch_allocators import ALLOCATES

_PYTHON = (".py", ".pyx")
_MOST_LINE = 1 << 31
_INTERPRETER = re.compile(
    r"^_?Py[A-Z_]\w*|^_Py_|^(method_|cfunction_|wrapper_|partial_|functools_)(vector)?call\w*|^(slot_\w+|type_call|object_\w*call\w*)\b"
    r"|^(vectorcall_\w+|binary_i?op1|ternary_i?op|builtin_\w+|run_eval_code_obj|run_mod|pyrun_\w+|pymain_\w+|main|_start|start_thread)\b"
    r"|^(__libc_\w+|__clone\w*|clone3?)\b|torch::unwind::unwind|CapturedTraceback::gather|gather_with_cpp"
)
_INTERPRETER_FILE = re.compile(r"\b(Objects/\w+\.c|Python/\w+\.c|Modules/main\.c|pycore_\w+\.h|cpython/abstract\.h)$|core/boxing")
"""Frames of the Python interpreter, of the begin of threads, and of torch's own look at the stack: `torch.cuda._memory_viz` drops them too.
Since Python 3.11 one call of the interpreter runs many functions, so torch cannot place Python's frames among them."""

_BOXING = re.compile(r"^c10::impl::(wrap_kernel_functor|BoxedKernelWrapper|make_boxed_from_unboxed|call_functor)|c10::Dispatcher::")
_ALLOCATING = re.compile(ALLOCATES)
_OP = re.compile(r"^at::_ops::(\w+)::(?:call|redispatch)\b")


class Stacks:
    """Stacks of a snapshot as calls of one process (a device)."""

    def __init__(self, rows: Sampled, process: int) -> None:
        self._rows, self._process = rows, process
        self._calls: dict[int, int] = {}
        self._frames: dict[int, tuple[int, bool]] = {}
        """By the identity of the file's dict: number of its frame (-1: left out), and whether it is part of every allocation."""
        self._kept: list[object] = []
        """Objects whose identity is a key stay."""
        self.cut = 0

    def call(self, frames: object) -> int:
        """The innermost call of a stack; -1: it has no frame."""
        if not isinstance(frames, list) or not frames:
            return -1
        call = self._calls.get(id(frames))
        if call is None:
            self.cut += len(frames) > DEEPEST
            read = [self._number(frame) for frame in frames[:DEEPEST]]
            read = [one for one in read if one[0] >= 0]
            inner = next((at for at, (_, allocates) in enumerate(read) if not allocates), 0)
            call = -1
            for number, _ in reversed(read[inner:]):
                call = self._rows.numbered_call(self._process, call, number)
            self._calls[id(frames)] = call
            self._kept.append(frames)
        return call

    def _number(self, frame: object) -> tuple[int, bool]:
        if not isinstance(frame, dict):
            return -1, False
        number = self._frames.get(id(frame))
        if number is None:
            number = self._frames[id(frame)] = self._read(frame)
            self._kept.append(frame)
        return number

    def _read(self, frame: dict[str, Any]) -> tuple[int, bool]:
        name, file, line = frame.get("name"), frame.get("filename"), whole(frame.get("line"))
        name, file = (one if isinstance(one, str) else "" for one in (name, file))
        line = line if line < _MOST_LINE else 0
        number = self._rows.frames.number
        if file.endswith(_PYTHON) or (file.startswith("<") and file.endswith(">")):
            return number(PythonFrame(name or "[unknown]", file, 0, line)), False
        if _INTERPRETER.search(name) or _INTERPRETER_FILE.search(file) or _BOXING.search(name):
            return -1, False
        if (op := _OP.match(name)) is not None:
            return number(NamedFrame(f"aten::{op[1]}", Kind.CPP, OP_MODULE)), bool(_ALLOCATING.search(name))
        source = "" if file == "??" else file
        return number(NamedFrame(name or "[unknown]", native_kind(name), "", source, line)), bool(_ALLOCATING.search(name))
