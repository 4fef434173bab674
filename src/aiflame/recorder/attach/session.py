"""Records a program that runs already: brings the collector in, watches, and takes it out again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.meta import Meta
from aiflame.profile.folder.other_root import ROOT
from aiflame.profile.schema.all_tables import LIVES_FILE
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.spool.living import spool_names
from aiflame.recorder.attach.cubins import keep_earlier
from aiflame.recorder.attach.family import job_of
from aiflame.recorder.attach.group import Group
from aiflame.recorder.attach.member import Member
from aiflame.recorder.attach.target import maps_text
from aiflame.recorder.attach.unseen import unseen_gpus
from aiflame.recorder.end import finish, still_recording
from aiflame.recorder.library import collector_file
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import Recording, Watch, prepare
from aiflame.recorder.supervise import keep_streams_free, signals_held, wait_until
from aiflame.recorder.view import View
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
    seal_follows: bool = True,
    begun: Callable[[float, int], None] = lambda *_: None,
) -> Attached:
    """Records the process and its children for so many seconds, 0: until it ends or a signal (Ctrl-C) comes. `whole_job`: with all ranks
    of its job on this machine. `seal_follows`: at once, while the program's files are still in place. `begun` gets the seconds after which
    recording began, and the number of processes."""
    keep_streams_free()
    # If a signal ended us while we have borrowed a thread, that would go on with registers that are not its own.
    with signals_held():
        return _attach(pid, place_for, options, seconds, whole_job, overwrite, seal_follows, begun)


def _attach(
    pid: int,
    place_for: Callable[[list[str]], ProfileLocation],
    options: RecordOptions,
    seconds: float,
    whole_job: bool,
    overwrite: bool,
    seal_follows: bool,
    begun: Callable[[float, int], None],
) -> Attached:
    from_s = time.monotonic()
    library = collector_file()
    with contextlib.ExitStack() as opened:
        first = opened.enter_context(contextlib.closing(Member(pid, library)))
        view = opened.enter_context(contextlib.closing(_view(pid)))
        others = job_of(pid) if whole_job else []
        command = list(first.process.command)
        place = place_for(command or [f"process-{pid}"])
        page, meta = prepare(place, options, command, overwrite=overwrite)
        meta = replace(meta, attached=pid, other_root=view.root is not None)
        meta.put(place.folder())
        opened.pop_all()  # the group closes the first one, too
        with (
            contextlib.closing(view),
            contextlib.closing(Group(first, library, place.profile.absolute(), children=options.children)) as group,
        ):
            work = _Work(group, view, library, place, page, meta, options, seconds, seal_follows)
            return _record(work, others, from_s, begun)


@dataclass(frozen=True, slots=True)
class _Work:
    group: Group
    view: View
    library: Path
    place: ProfileLocation
    page: ControlPage
    meta: Meta
    options: RecordOptions
    seconds: float
    seal_follows: bool


def _record(work: _Work, others: list[int], from_s: float, begun: Callable[[float, int], None]) -> Attached:
    began_s = 0.0
    try:
        began_s = work.group.begin(others) - from_s
        begun(began_s, len(work.group))
        return _watch(work, began_s)
    except BaseException:
        work.page.state = ControlState.STOPPED
        work.group.leave()
        if not began_s:
            work.place.remove()
        raise


def _watch(work: _Work, began_s: float) -> Attached:
    group, place, view = work.group, work.place, work.view
    notes = unseen_gpus(group.pids)
    for note in notes:
        place.tell(note)
    watch = Watch(place, work.page, notes, work.options, work.meta, view=view)
    until = time.monotonic() + work.seconds if work.seconds else float("inf")
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
    work.page.state = ControlState.STOPPED
    for child in _forked(place, view):
        notes += _leave_child(child, work.library)
    if not group.has_apart:  # no library that a container names is loaded here
        keep_earlier(group.pids, place.folder())
    finish(place, work.page, work.meta, None, notes, lambda: watch.finish(sealed_soon=work.seal_follows))
    held = watch.held() | group.held()
    if view.root is not None:
        held[ROOT] = os.dup(view.root)
    recording = Recording(place, 0, notes, [], work.page.used_bytes, held)
    return Attached(recording, began_s, group.longest_s, ended, len(group))


def abandoned(place: ProfileLocation) -> None:
    """Ends a recording whose recorder was killed: takes the collector out, and completes the profile as far as it goes."""
    profile = place.folder()
    library = collector_file()
    notes = ["the recorder was killed: the window ends when it was found"]
    meta = Meta.read(profile)
    try:
        view = View.of(meta.attached)
    except OSError:
        view = View()
    for pid in _forked(place, view):
        notes += _leave_child(pid, library)
    view.close()
    with ControlPage.open(profile) as page:
        finish(place, page, meta, None, notes)


def _view(pid: int) -> View:
    try:
        return View.of(pid)
    except OSError as error:
        raise AiflameError(f"process {pid} has just ended, or cannot be read: {error}") from error


def _forked(place: ProfileLocation, view: View) -> list[int]:
    """Processes that still record: those that ours have forked."""
    if view.root is None and not view.numbers.differ:
        return still_recording(place)
    pids = {name: name.partition(".")[0] for name in spool_names(place.folder())}
    here = {name: view.numbers.here(int(pid)) for name, pid in pids.items() if pid.isdecimal()}
    return sorted({pid for name, pid in here.items() if pid is not None and _has_table(pid, name)})


def _has_table(pid: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        mapped = maps_text(pid)
        return any(os.fsencode(f"/{part}") in mapped for part in (f"{name}/", LIVES_FILE))
    return False


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
