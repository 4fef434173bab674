"""Ends a recording: finds processes that are still being recorded, and completes meta.json."""

from __future__ import annotations

from collections.abc import Callable

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.spool.living import has_processes, living, spool_names
from aiflame.recorder.place import ProfileLocation
from aiflame.values import replace


def still_recording(place: ProfileLocation) -> list[int]:
    """Ids of processes that the command has left running and that are still being recorded."""
    try:
        profile = place.folder()
        return living(lambda: spool_names(profile), profile.status())
    except (OSError, AiflameError):
        return []


def finish(
    place: ProfileLocation,
    page: ControlPage,
    meta: Meta,
    status: int | None,
    notes: list[str],
    stop_watching: Callable[[], None] | None = None,
    alive: list[int] | None = None,
) -> None:
    """Stops the recording and completes meta.json.

    `stop_watching` ends the recorder's work beside the program and may add to `notes`; `alive`: processes that are still being recorded."""
    if not alive:
        page.state = ControlState.STOPPED
    if stop_watching is not None:
        stop_watching()
    try:
        profile = place.folder()
        if not notes and not has_processes(profile):
            notes.append("nothing was recorded: the program did not load the collector (is LD_PRELOAD stripped on the way to it?)")
            place.tell(notes[-1])
        meta = replace(meta, ended=Clocks.now(), exit_status=status, complete=True)
        meta.with_notes(*notes).put(profile)
    except (OSError, AiflameError) as error:
        if place.failure(error) not in notes:
            notes.append(place.failure(error) if place.is_gone() else f"could not write {place.profile}/meta.json")
            place.tell(notes[-1])
