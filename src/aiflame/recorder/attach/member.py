"""One process that is being recorded: the collector is brought in, its busy threads get stacks for ticks, and it is taken out again."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.recorder.attach.filters import would_end
from aiflame.recorder.attach.injector import Injector, NotNowError
from aiflame.recorder.attach.ptrace import LostError
from aiflame.recorder.attach.sending import LOADED, MAPPED, Parcel, Sent
from aiflame.recorder.attach.settling import Settler
from aiflame.recorder.attach.target import finds, finds_proc, has_own_filters, maps_text, target
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.recorder.numbers import Numbers

_BEGAN, _RECORDED_ALREADY = 1, 2
_PATIENCE_S = 30.0
"""For the collector to begin, or to end: CUPTI is loaded, and waits for launches, in that time."""


class RecordedAlreadyError(AiflameError):
    """The collector is at work in this process."""


class Member:
    def __init__(self, pid: int, library: Path, numbers: Numbers | None = None) -> None:
        """AiflameError, in one line, if the program cannot take the collector in. `numbers`: those of the recording; None: its own."""
        self.pid, self._library, self._began = pid, library, False
        with _in_words(pid), contextlib.ExitStack() as opened:
            self.process = target(pid)
            opened.callback(os.close, self.process.pidfd)
            self.numbers = numbers or Numbers.of(pid)
            if not self.numbers.have(pid):
                raise AiflameError(f"process {pid} lives in another container than the first one: attach to it by itself")
            try:
                self._injector = Injector(pid)
            except PermissionError:
                raise AiflameError(f"the system does not let us trace process {pid}: attach as its user or as root") from None
            opened.callback(self._injector.close)
            if has_own_filters(pid):
                self._refuse_filters()
            opened.pop_all()
        self._settler = Settler(pid, self._injector)
        self._sent: Sent | None = None

    def _refuse_filters(self) -> None:
        try:
            reason = self._injector.trace(lambda: would_end(self.pid))
        except OSError:
            reason = "root alone can read the filters of system calls (seccomp) that its container has set, which might end it"
        if reason:
            raise AiflameError(f"process {self.pid} cannot be attached to: {reason}: record it from its start")

    @property
    def longest_s(self) -> float:
        """The longest stop of one of its threads."""
        return self._injector.longest_s

    def begin(
        self, profile: Path, parcel: Callable[[], Parcel], patience_s: float = _PATIENCE_S, gives_up: Callable[[], bool] = lambda: False
    ) -> None:
        """`parcel` is asked for where the program does not find the profile."""
        with _in_words(self.pid), contextlib.ExitStack() as sent:
            apart = not finds(self.pid, profile, self._library)
            if not self.process.lives():
                raise AiflameError(f"there is no process {self.pid}: it has just ended")
            library, argument = self._loaded(), os.fsencode(profile)
            if apart:
                files = self._sent = parcel().send(self._injector, self.pid, self.process.pidfd)
                sent.callback(self._take_back, files)
                library, argument = library or files.library, files.argument
            result = self._injector.call(library or self._library, "aiflame_attach", argument, patience_s, gives_up)
            self._began = not result.problem and result.value == _BEGAN
        if result.problem:
            problem = result.problem if finds_proc(self.pid) else "/proc is not mounted in its container"
            raise AiflameError(f"process {self.pid} cannot load the collector: {problem}")
        if result.value == _RECORDED_ALREADY:
            raise RecordedAlreadyError(f"process {self.pid} is recorded already: end that recording first")
        if result.value != _BEGAN:
            raise AiflameError(f"process {self.pid} cannot record into {profile}: it may be in a sandbox, or not see that folder")

    def _loaded(self) -> Path | None:
        """The collector that the program has loaded from another place than ours: under our name it would be loaded a second time."""
        mapped = maps_text(self.pid)
        elsewhere = MAPPED in mapped or (b"/libaiflame.so" in mapped and not finds(self.pid, self._library))
        return Path(LOADED) if elsewhere else None

    def _take_back(self, files: Sent) -> None:
        if not self._began:
            files.take_back()

    def look(self) -> None:
        with contextlib.suppress(AiflameError), _in_words(self.pid):  # it has just ended, or started another program
            self._settler.look()

    def lives(self) -> bool:
        ended = select.poll()
        ended.register(self.process.pidfd, select.POLLIN)
        return not ended.poll(0)

    def is_recorded(self) -> bool:
        """False when the process has ended or has started another program."""
        return self._began and self.lives() and self._injector.is_same_program()

    def leave(self) -> list[str]:
        """Takes the collector's timers and handlers out of the program; a note if that was not possible, or if records are missing."""
        closed = self._sent is not None and self._sent.are_closed()
        try:
            with _in_words(self.pid):
                problem = self._injector.call(self._loaded() or self._library, "aiflame_detach", b"", _PATIENCE_S).problem
                self._settler.finish()
        except AiflameError as error:
            problem = str(error)
        if not self.lives() or not self._injector.is_same_program():
            return []
        lost = [f"process {self.pid} has closed the descriptors through which it is recorded: later records are missing"] if closed else []
        return lost if not problem else [*lost, f"the collector stays in process {self.pid}, and does nothing there: {problem}"]

    def close(self) -> None:
        self._injector.close()
        os.close(self.process.pidfd)


@contextlib.contextmanager
def _in_words(pid: int) -> Iterator[None]:
    """A process may end, or start another program, at each step."""
    try:
        yield
    except (OSError, UnreadableError, LostError, NotNowError) as error:
        raise AiflameError(f"process {pid} has just ended, or cannot be read: {error}") from error
