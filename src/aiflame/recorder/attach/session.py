"""Records a program that runs already: brings the collector in, watches, and takes it out again."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.meta import Meta
from aiflame.recorder.attach.injector import Injector
from aiflame.recorder.attach.settling import Settler
from aiflame.recorder.attach.target import Target, check_paths, target
from aiflame.recorder.end import finish, still_recording
from aiflame.recorder.library import collector_file
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import Recording, Watch, prepare
from aiflame.recorder.supervise import wait_until
from aiflame.values import dataclass, replace

_BEGAN, _RECORDED_ALREADY = 1, 2
_SETTLE_S, _OFTEN_S = 0.02, 2.0
"""Seconds between two looks for busy threads, and for how long they are that frequent."""


@dataclass(frozen=True, slots=True)
class Attached:
    recording: Recording
    began_s: float
    """from the call until the collector had begun"""
    paused_s: float
    """the longest stop of a thread of the program"""
    ended: bool
    """the program has ended"""


def attach(
    pid: int,
    place_for: Callable[[list[str]], ProfileLocation],
    options: RecordOptions,
    *,
    seconds: float = 0,
    overwrite: bool = False,
    begun: Callable[[float], None] = lambda _: None,
) -> Attached:
    """Records the process for so many seconds, 0: until it ends or a signal (Ctrl-C) comes. `begun` is called as soon as the collector
    has begun."""
    from_s = time.monotonic()
    process = target(pid)
    try:
        library = collector_file()
        check_paths(pid, library)
        injector = Injector(pid)
        try:
            place = place_for(list(process.command) or [f"process-{pid}"])
            page, meta = prepare(place, options, list(process.command), overwrite=overwrite)
            meta = replace(meta, attached=pid)
            meta.put(place.folder())
            return _record(process, injector, library, place, page, meta, options, seconds, from_s, begun)
        finally:
            injector.close()
    except PermissionError:
        raise AiflameError(f"the system does not let us trace process {pid}: attach as its user or as root") from None
    finally:
        os.close(process.pidfd)


def _record(
    process: Target,
    injector: Injector,
    library: Path,
    place: ProfileLocation,
    page: ControlPage,
    meta: Meta,
    options: RecordOptions,
    seconds: float,
    from_s: float,
    begun: Callable[[float], None],
) -> Attached:
    notes: list[str] = []
    _begin(process, injector, library, place)
    began_s = time.monotonic() - from_s
    begun(began_s)
    settler = Settler(process.pid, injector)
    watch = Watch(place, page, notes, options, meta)
    until = time.monotonic() + seconds if seconds else float("inf")
    often_until, next_watch = time.monotonic() + _OFTEN_S, 0.0

    def over(longest_s: float) -> bool:
        nonlocal next_watch
        now = time.monotonic()
        settler.look()
        if now >= next_watch:
            next_watch = now + longest_s
            watch()
        pause = min(_SETTLE_S if now < often_until else longest_s, max(until - time.monotonic(), 0))
        return bool(select.select([process.pidfd], [], [], pause)[0]) or time.monotonic() >= until

    wait_until(over)
    ended = bool(select.select([process.pidfd], [], [], 0)[0])
    if not ended:
        notes += _leave(process.pid, injector, settler, library)
    for child in still_recording(place):
        notes += _leave_child(child, library)
    finish(place, page, meta, None, notes, lambda: watch.finish(sealed_soon=True))
    return Attached(Recording(place, 0, notes, [], page.used_bytes, watch.held()), began_s, injector.longest_s, ended)


def _begin(process: Target, injector: Injector, library: Path, place: ProfileLocation) -> None:
    profile = place.profile.absolute()
    try:
        check_paths(process.pid, profile)
        if not process.lives():
            raise AiflameError(f"there is no process {process.pid}: it has just ended")
        result = injector.call(library, "aiflame_attach", os.fsencode(profile))
        if result.problem:
            raise AiflameError(f"process {process.pid} cannot load the collector: {result.problem}")
        if result.value == _RECORDED_ALREADY:
            raise AiflameError(f"process {process.pid} is recorded already: end that recording first")
        if result.value != _BEGAN:
            raise AiflameError(f"process {process.pid} cannot record into {profile}: it may be in a sandbox, or not see that folder")
    except BaseException:
        place.remove()
        raise


def _leave(pid: int, injector: Injector, settler: Settler, library: Path) -> list[str]:
    """Takes the collector's timers and handlers out of the program; a note if that was not possible."""
    try:
        result = injector.call(library, "aiflame_detach", b"")
        settler.finish()
    except (AiflameError, OSError) as error:
        return [f"the collector stays in process {pid}, and does nothing there: {error}"]
    return [f"the collector stays in process {pid}, and does nothing there: {result.problem}"] if result.problem else []


def _leave_child(pid: int, library: Path) -> list[str]:
    try:
        injector = Injector(pid)
        try:
            injector.call(library, "aiflame_detach", b"")
        finally:
            injector.close()
    except (AiflameError, OSError) as error:
        return [f"the collector stays in process {pid}, and does nothing there: {error}"]
    return []
