"""Runs a command so that it notices nothing of us: its standard streams, its signals, its exit status."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from aiflame.recorder.command import CommandError, find

_SI_KERNEL = 0x80  # siginfo's code for a signal that the terminal sent to the whole group: the command has it already
_FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def supervise(command: list[str], environment: Mapping[str, str], watch: Callable[[], None], every: float = 0.25) -> int:
    """Runs `command` to its end, calling `watch` at once and every so often; its status as `subprocess` gives it (negative: a signal)."""
    wanted = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    # A SIGCHLD that is ignored (inherited from nohup-like parents) would never wake us.
    child_action = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        process = _start(command, environment, before)
        watch()
        while process.poll() is None:
            told = signal.sigtimedwait(wanted, every)
            if told is not None and told.si_signo != signal.SIGCHLD and told.si_code != _SI_KERNEL:
                process.send_signal(told.si_signo)
            watch()
        return process.returncode
    finally:
        signal.signal(signal.SIGCHLD, child_action)
        # A Ctrl-C that came while the command ended was for the command.
        while signal.sigtimedwait(set(_FORWARDED), 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become(command: list[str]) -> NoReturn:
    """Runs `command` in our place, unrecorded."""
    find(command)
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    with _as_errors(command):
        os.execvp(command[0], command)


def _start(command: list[str], environment: Mapping[str, str], mask: set[int | signal.Signals]) -> subprocess.Popen[bytes]:
    with _as_errors(command):
        return subprocess.Popen(
            command,
            env=dict(environment),
            close_fds=False,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask) and None,
        )


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
    """Ends as the command ended: by the same signal, or with the status that is returned."""
    if status >= 0:
        return status
    number = -status
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
