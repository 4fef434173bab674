"""Work in child processes: a window, or adding windows to the store. A child that fails or hangs harms nothing but its own work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection

from aiflame.errors import AiflameError
from aiflame.values import dataclass

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    key: str
    until_s: float
    """It is killed when it lives longer."""
    answer: int
    """A pipe with the reason of its failure."""


@dataclass(frozen=True, slots=True)
class Ended:
    child: Child
    cpu_s: float
    problem: str
    """Empty: it has done its work."""


def start(
    key: str, work: Callable[[], None], longest_s: float, *, close: Collection[int] = (), quiet: bool = True, attaches: bool = False
) -> Child:
    """Does the work in a child process. `close`: descriptors that it must not keep. `attaches`: signals wait until the work fetches them,
    since a child that ended while it has borrowed a thread would leave that with registers that are not its own."""
    answer, report = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(answer)
        os.close(report)
        raise
    if pid == 0:
        status = 1
        try:
            os.setsid()  # Ctrl-C is for the agent, which ends its children one by one
            signal.pthread_sigmask(signal.SIG_BLOCK if attaches else signal.SIG_UNBLOCK, HANDLED)
            for number in HANDLED:
                signal.signal(number, signal.SIG_DFL)
            for descriptor in (answer, *close):
                os.close(descriptor)
            if quiet:
                null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                for stream in (0, 1, 2):
                    os.dup2(null, stream)
            work()
            status = 0
        except AiflameError as error:
            os.write(report, str(error).encode("utf-8", "replace")[:_LONGEST_TEXT])
        except BaseException as error:  # a child says what went wrong, and ends
            os.write(report, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:_LONGEST_TEXT])
        finally:
            os._exit(status)
    os.close(report)
    return Child(pid, key, time.monotonic() + longest_s, answer)


def end_of(child: Child, now_s: float) -> Ended | None:
    """None: it works on."""
    pid, status, used = os.wait4(child.pid, os.WNOHANG)
    if not pid:
        if now_s > child.until_s:
            os.kill(child.pid, signal.SIGKILL)
        return None
    text = os.read(child.answer, _LONGEST_TEXT).decode("utf-8", "replace")
    os.close(child.answer)
    code = os.waitstatus_to_exitcode(status)
    problem = "" if code == 0 else text or (f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}")
    return Ended(child, used.ru_utime + used.ru_stime, problem)
