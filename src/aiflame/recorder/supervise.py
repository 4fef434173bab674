"""Runs a command so that it does not notice the recorder: its standard streams, signals and exit status stay the same."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterator, Mapping

from aiflame.recorder.command import CommandError, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SI_KERNEL = 0x80  # siginfo's code for a signal that the terminal sent to the whole group: the command has received it, too
_FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP}
_HELD = (*_FORWARDED, signal.SIGCHLD)
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
    with signals_held() as (before, child_action):
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a signal that has come by now ends us: there is no command yet
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        pid = _start(command, environment, before, child_action)
        watch()
        patience = _FIRST_S
        while (status := _ended(pid)) is None:
            received = signal.sigtimedwait(_HELD, patience)
            if received is None:
                watch()
                patience = every
            elif received.si_signo != signal.SIGCHLD and received.si_code != _SI_KERNEL and not (takes and takes(received.si_signo)):
                with contextlib.suppress(PermissionError):  # it has become another user (sudo)
                    os.kill(pid, received.si_signo)  # not waited for yet, so the process id still belongs to it
        _forget_signals()
        return status


def wait_until(over: Callable[[float], bool]) -> None:
    """Calls `over` with the seconds that it may wait, until it returns True or a signal asks us to end."""
    with signals_held():
        while not over(0.25):
            if signal.sigtimedwait(_FORWARDED, 0) is not None:
                return


def keep_streams_free() -> None:
    """Opens /dev/null where a standard stream of ours was closed when we were started. Otherwise a file of ours would take its number, and
    lines that a library prints would end in that file. The command still finds the stream closed."""
    with contextlib.suppress(OSError):
        while (null := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
            pass
        os.close(null)


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


_now_held: list[tuple[set[int | signal.Signals], object]] = []
"""The mask and the SIGCHLD disposition that we were started with, while signals are held."""


_for_good: list[bool] = []


def hold_signals_for_good() -> None:
    """The next `signals_held` blocks signals until this process ends, unless it fails: the process has nothing to do but to end with the
    program's status. Only for a process of our own."""
    _for_good.append(True)


@contextlib.contextmanager
def signals_held() -> Iterator[tuple[set[int | signal.Signals], object]]:
    """Blocks signals until `sigtimedwait` fetches them; yields the mask and the SIGCHLD disposition that we were started with.

    Within such a block another one changes nothing."""
    if _now_held:
        yield _now_held[0]
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    # If SIGCHLD is ignored (inherited from parents like nohup), it would never wake us, and the command's status would be lost.
    child_action = signal.signal(signal.SIGCHLD, lambda *_: None)
    _now_held.append((before, child_action))
    ends = True
    try:
        yield before, child_action
        ends = not _for_good
    finally:
        if ends:
            _now_held.clear()
            signal.signal(signal.SIGCHLD, child_action)
            _forget_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def signals_free() -> Iterator[None]:
    """Signals come as they did before `signals_held`: for work that may be interrupted, and that starts processes."""
    if not _now_held:
        yield
        return
    _forget_signals()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, _now_held[0][0])
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)


def asked_to_end() -> bool:
    """True if a signal that would end us waits to be fetched."""
    return bool(signal.sigpending() & _ENDING)


def _forget_signals() -> None:
    """A Ctrl-C that came while the command ended was meant for the command."""
    while signal.sigtimedwait(_FORWARDED, 0) is not None:
        pass


def _start(command: list[str], environment: Mapping[str, str], mask: set[int | signal.Signals], child_action: object) -> int:
    """Starts the command with the signal mask and the dispositions with which we were started; returns its process id.

    Uses fork(), although posix_spawn() takes 3 ms less: glibc's leaves two signals ignored that the C library itself uses.
    """
    try:
        failed, report = os.pipe()  # closed when the program runs
        pid = os.fork()
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be run: no process can be started: {error.strerror}", 126) from None
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
        if error.errno == errno.ENOEXEC:
            raise CommandError(
                f"{command[0]} is no program of this machine, and no script that names its interpreter: put the interpreter in front, like"
                f" sh {command[0]}, or begin it with a line like #!/bin/sh",
                126,
            ) from None
        raise CommandError(f"{command[0]} cannot be run: {error.strerror}", 126) from None


def leave_as(status: int) -> int:
    """Ends this process as the command ended: by the same signal, even if it is held, or with the returned status."""
    if status >= 0:
        return status
    number = -status
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    return 128 + number
