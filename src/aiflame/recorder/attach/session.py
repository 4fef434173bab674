"""Records a program that runs already: brings the collector in, watches, and takes it out again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.control_schema import ControlState
from aiflame.recorder.attach.cubins import keep_earlier
from aiflame.recorder.attach.family import job_of
from aiflame.recorder.attach.group import Group
from aiflame.recorder.attach.member import Member
from aiflame.recorder.attach.unseen import unseen_gpus
from aiflame.recorder.end import finish, still_recording
from aiflame.recorder.library import collector_file
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import Recording, Watch, prepare
from aiflame.recorder.supervise import keep_streams_free, signals_held, wait_until
from aiflame.values import dataclass, replace

_SETTLE_S, _OFTEN_S = 0.02, 2.0
"""Seconds between two looks for busy threads, and for how long they are that frequent."""


@dataclass(frozen=True, slots=True)
class Attached:
    recording: Recording
    began_s: float
    """from the call until the collector had begun in the process that was named"""
    paused_s: float
    """the longest stop of a thread of the program"""
    ended: bool
    """the program has ended"""
    processes: int


def attach(
    pid: int,
    place_for: Callable[[list[str]], ProfileLocation],
    options: RecordOptions,
    *,
    seconds: float = 0,
    whole_job: bool = False,
    overwrite: bool = False,
    begun: Callable[[float, int], None] = lambda *_: None,
) -> Attached:
    """Records the process and its children for so many seconds, 0: until it ends or a signal (Ctrl-C) comes. `whole_job`: with all ranks
    of its job on this machine. `begun` gets the seconds after which recording began, and the number of processes."""
    keep_streams_free()
    # If a signal ended us while we have borrowed a thread, that would go on with registers that are not its own.
    with signals_held():
        return _attach(pid, place_for, options, seconds, whole_job, overwrite, begun)


def _attach(
    pid: int,
    place_for: Callable[[list[str]], ProfileLocation],
    options: RecordOptions,
    seconds: float,
    whole_job: bool,
    overwrite: bool,
    begun: Callable[[float, int], None],
) -> Attached:
    from_s = time.monotonic()
    library = collector_file()
    first = Member(pid, library)
    group = None
    try:
        others = job_of(pid) if whole_job else []
        command = list(first.process.command)
        place = place_for(command or [f"process-{pid}"])
        page, meta = prepare(place, options, command, overwrite=overwrite)
        meta = replace(meta, attached=pid)
        meta.put(place.folder())
        group = Group(first, library, place.profile.absolute(), children=options.children)
        return _record(group, others, library, place, page, meta, options, seconds, from_s, begun)
    finally:
        if group is not None:
            group.close()
        else:
            first.close()


def _record(
    group: Group,
    others: list[int],
    library: Path,
    place: ProfileLocation,
    page: ControlPage,
    meta: Meta,
    options: RecordOptions,
    seconds: float,
    from_s: float,
    begun: Callable[[float, int], None],
) -> Attached:
    began_s = 0.0
    try:
        began_s = group.begin(others) - from_s
        begun(began_s, len(group))
        return _watch(group, library, place, page, meta, options, seconds, began_s)
    except BaseException:
        page.state = ControlState.STOPPED
        group.leave()
        if not began_s:
            place.remove()
        raise


def _watch(
    group: Group,
    library: Path,
    place: ProfileLocation,
    page: ControlPage,
    meta: Meta,
    options: RecordOptions,
    seconds: float,
    began_s: float,
) -> Attached:
    notes = unseen_gpus(group.pids)
    for note in notes:
        place.tell(note)
    watch = Watch(place, page, notes, options, meta)
    until = time.monotonic() + seconds if seconds else float("inf")
    often_until, next_watch = time.monotonic() + _OFTEN_S, 0.0

    def over(longest_s: float) -> bool:
        nonlocal next_watch
        now = time.monotonic()
        group.look()
        if now >= next_watch:
            next_watch = now + longest_s
            watch()
        pause = min(_SETTLE_S if now < often_until else longest_s, max(until - time.monotonic(), 0))
        return group.wait(pause) or time.monotonic() >= until

    wait_until(over)
    ended = group.wait(0)
    notes += group.leave()
    page.state = ControlState.STOPPED
    for child in still_recording(place):
        notes += _leave_child(child, library)
    keep_earlier(group.pids, place.folder())
    finish(place, page, meta, None, notes, lambda: watch.finish(sealed_soon=True))
    recording = Recording(place, 0, notes, [], page.used_bytes, watch.held())
    return Attached(recording, began_s, group.longest_s, ended, len(group))


def abandoned(place: ProfileLocation) -> None:
    """Ends a recording whose recorder was killed: takes the collector out, and completes the profile as far as it goes."""
    profile = place.folder()
    library = collector_file()
    notes = ["the recorder was killed: the window ends when it was found"]
    for pid in still_recording(place):
        notes += _leave_child(pid, library)
    with ControlPage.open(profile) as page:
        finish(place, page, Meta.read(profile), None, notes)


def _leave_child(pid: int, library: Path) -> list[str]:
    """Leaves a process that one of ours has forked."""
    try:
        child = Member(pid, library)
    except AiflameError as error:
        return [f"the collector stays in process {pid}, and does nothing there: {error}"]
    try:
        return child.leave()
    finally:
        child.close()
