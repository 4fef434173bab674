"""Records the allocation of host memory that failed and ended the program: its bytes, and the lines of the exception's traceback.

The exception comes from an audit hook, so `sys.excepthook` stays as it is. Refusals of devices are recorded natively.
"""

import sys

import _aiflame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

TABLE, MEMORY = "memory_refusals", "host"
_TORCH = "DefaultCPUAllocator"
"""In the text of torch's RuntimeError."""
_PYTHON, _KIND, _ID = 3, 60, 32
"""FrameKind.PYTHON, and the bits of a frame's word (`frame_packing.py`)."""
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
_MOST_FRAMES = 1000
_MOST = (1 << 64) - 1


def install(_: "Any") -> None:
    sys.addaudithook(_audited)


def _audited(event: str, arguments: "Any") -> None:
    if event != "sys.excepthook":
        return
    try:
        error = arguments[2]
        if isinstance(error, MemoryError) or (type(error) is RuntimeError and _TORCH in str(error)):
            _aiflame.append(TABLE, 0, _stack(error.__traceback__), MEMORY, _asked(error), 0, 0, 0, _aiflame.now_ns())
    except Exception:
        pass  # no memory is left for this


def _asked(error: BaseException) -> int:
    """The bytes that were asked for, 0: not known. numpy's error has them; torch's says them: `you tried to allocate 4096 bytes`."""
    exact = getattr(error, "_total_size", None)
    if isinstance(exact, int):
        return min(max(exact, 0), _MOST)
    if type(error) not in (MemoryError, RuntimeError):
        return 0  # its text is made by the program's own code
    words = str(error).replace(",", "").split()
    for number, unit in zip(words, words[1:], strict=False):  # noqa: RUF007 - itertools may not be loaded yet
        if number.replace(".", "", 1).isdigit() and unit.strip(".;:") in _UNITS:
            return min(int(float(number) * _UNITS[unit.strip(".;:")]), _MOST)
    return 0


def _stack(trace: "TracebackType | None") -> int:
    """The row of `stacks` of a traceback; its code objects count lines, as in imported traces."""
    stack = 0
    for _ in range(_MOST_FRAMES):
        if trace is None:
            break
        code = trace.tb_frame.f_code
        first = code.co_firstlineno
        name = getattr(code, "co_qualname", code.co_name)
        row = _aiflame.append("codes", first, code.co_filename, name, b"", 0)
        line = max(trace.tb_lineno or first, first)
        stack = _aiflame.append("stacks", stack, _PYTHON << _KIND | row << _ID | (line - first + 1))
        trace = trace.tb_next
    return stack
