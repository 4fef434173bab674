"""Runs a command so that it does not notice the recorder: its standard streams, signals and exit status stay the same."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping

from aiflame.recorder.command import CommandError, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SI_KERNEL = 0x80  # siginfo's code for a signal that the terminal sent to the whole group: the command has received it, too
_FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FIRST_S = 0.02
"""A program that ends sooner is not watched: starting to watch would take longer than the program."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def supervise(
    command: list[str],
    environment: Mapping[str, str],
    watch: Callable[[], None],
    every: float = 0.25,
    takes: Callable[[int], bool] | None = None,
) -> int:
    """Runs `command` to its end, calling `watch` at once and then every `every` seconds. A signal for which `takes` returns True is not
    passed on.

    Returns the status as `subprocess` gives it (negative: a signal)."""
    with _signals_held() as (before, child_action):
        pid = _start(command, environment, before, child_action)
        watch()
        patience = _FIRST_S
        while (status := _ended(pid)) is None:
            received = signal.sigtimedwait({*_FORWARDED, signal.SIGCHLD}, patience)
            if received is None:
                watch()
                patience = every
            elif received.si_signo != signal.SIGCHLD and received.si_code != _SI_KERNEL and not (takes and takes(received.si_signo)):
                os.kill(pid, received.si_signo)  # not waited for yet, so the process id still belongs to it
        return status


def wait_until(over: Callable[[float], bool]) -> None:
    """Calls `over` with the seconds that it may wait, until it returns True or a signal asks us to end."""
    with _signals_held():
        while not over(0.25):
            if signal.sigtimedwait(set(_FORWARDED), 0) is not None:
                return


def children_cpu_ns() -> int:
    """CPU time of the command, which has ended, and of all children that it waited for."""
    times = os.times()
    return int((times.children_user + times.children_system) * 1e9)


def become(command: list[str]) -> NoReturn:
    """Runs `command` in our place, unrecorded."""
    find(command)
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    with _as_errors(command):
        os.execvp(command[0], command)


@contextlib.contextmanager
def _signals_held() -> Iterator[tuple[set[int | signal.Signals], object]]:
    """Blocks signals until `sigtimedwait` fetches them; yields the mask and the SIGCHLD disposition that we were started with."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    # If SIGCHLD is ignored (inherited from parents like nohup), it would never wake us, and the command's status would be lost.
    child_action = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield before, child_action
    finally:
        signal.signal(signal.SIGCHLD, child_action)
        # A Ctrl-C that came while the command ended was meant for the command.
        while signal.sigtimedwait(set(_FORWARDED), 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(command: list[str], environment: Mapping[str, str], mask: set[int | signal.Signals], child_action: object) -> int:
    """Starts the command with the signal mask and the dispositions with which we were started; returns its process id.

    Uses fork(), although posix_spawn() takes 3 ms less: glibc's leaves two signals ignored that the C library itself uses.
    """
    failed, report = os.pipe()  # closed when the program runs
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            # Only "ignored" survives an exec. Signals that Python ignores are reset, because it cannot be seen whether our parent ignored
            # them.
            signal.signal(signal.SIGCHLD, signal.SIG_IGN if child_action == signal.SIG_IGN else signal.SIG_DFL)
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                os.execvpe(command[0], command, environment)
            except OSError as error:
                os.write(report, str(error.errno).encode())
        os._exit(127)
    os.close(report)
    failure = os.read(failed, 16)
    os.close(failed)
    if failure:
        os.waitpid(pid, 0)
        with _as_errors(command):
            raise OSError(int(failure), os.strerror(int(failure)))
    return pid


def _ended(pid: int) -> int | None:
    """The status of a child that has ended; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


@contextlib.contextmanager
def _as_errors(command: list[str]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CommandError(f"{command[0]}: its interpreter is missing: check its first line (#!)", 127) from None
    except PermissionError:
        raise CommandError(f"{command[0]} is not executable: chmod +x it, or put its interpreter in front", 126) from None
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be run: {error.strerror}", 126) from None


def leave_as(status: int) -> int:
    """Ends this process as the command ended: by the same signal, or with the returned status."""
    if status >= 0:
        return status
    number = -status
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
