"""Asks the flight recorder to keep its window when this program runs out of memory, or does not catch an exception.

Uncaught exceptions come from an audit hook, so `sys.excepthook` stays as it is. Exceptions that the program catches come from
`sys.monitoring`, on CPython 3.12 and later.
"""

import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOOL = 4
_QUIET_NS = 1_000_000_000
_LONGEST = 120
_last_ns = 0


def install(_: "Any") -> None:
    sys.addaudithook(_audited)
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    try:
        monitoring.use_tool_id(_TOOL, "aiflame")
    except ValueError:
        return  # another tool has it
    monitoring.register_callback(_TOOL, monitoring.events.RAISE, _raised)
    monitoring.set_events(_TOOL, monitoring.events.RAISE)


def _audited(event: str, arguments: "Any") -> None:
    if event == "sys.excepthook" and not issubclass(arguments[1], KeyboardInterrupt):
        _tell(arguments[2])


def _raised(_code: "Any", _offset: int, error: BaseException) -> None:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        _tell(error)


def _tell(error: BaseException) -> None:
    """Asks once for an exception that is raised again and again on its way."""
    global _last_ns
    now = time.monotonic_ns()
    if now - _last_ns < _QUIET_NS:
        return
    _last_ns = now
    try:
        kind = "out-of-memory" if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" else "exception"
        _write(kind, f"{type(error).__name__}: {error}".removesuffix(": ")[:_LONGEST], now)
    except Exception:
        pass  # the folder is gone, or no memory is left for this


def _write(kind: str, reason: str, now: int) -> None:
    ring = posix.environ.get(b"AIFLAME_PROFILE", b"").decode("utf-8", "surrogateescape")
    name = f"{ring}/requests/{posix.getpid()}-{now}"
    plain = "".join(letter if letter.isprintable() and letter not in '"\\' else " " for letter in reason)
    text = f'{{"kind": "{kind}", "reason": "{plain}", "time_ns": {now}}}'
    descriptor = posix.open(f"{name}.new", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
    try:
        posix.write(descriptor, text.encode("utf-8", "replace"))
    finally:
        posix.close(descriptor)
    posix.rename(f"{name}.new", f"{name}.asked")
