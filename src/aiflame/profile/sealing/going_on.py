"""Finds out whether a profile is still being recorded. Then its spool stays as it is, and a reader gets the records so far.

A recording is over when its recorder has said so on the control page, or when neither the recorder nor any recorded process lives.
Processes of another host, or in another namespace of process ids, cannot be seen: there it is over when no file has changed for a day.
"""

from __future__ import annotations

import time

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import FILE_NAME as CONTROL_FILE
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta, boot_id, pid_namespace
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.spool.living import SPOOL, living, spool_names
from aiflame.profile.tables.index import Index

SEALED = "tables"
_QUIET_S = 86_400.0


def still_recorded(profile: Folder) -> str | None:
    """A note for readers while a profile is being recorded; None: the recording is over."""
    if _is_over(profile):
        return None
    meta = Meta.read(profile)
    if not _can_see(meta):
        if time.time() - _last_change(profile) > _QUIET_S:
            return None
        return (
            f"may still be being recorded on {meta.host.name or 'another host'}, whose processes cannot be seen from here: this is its"
            f" state at {_now()}"
        )
    if meta.ended is None and meta.recorder.pid and meta.recorder.alive():
        return f"is still being recorded: this is its state at {_now()}"
    if not (processes := living(lambda: spool_names(profile), profile.status())) or _is_over(profile):
        return None
    some = ", ".join(map(str, processes[:4])) + (" …" if len(processes) > 4 else "")
    whose = "its command has ended" if meta.complete else "its recorder is gone"
    goes = "process {} goes" if len(processes) == 1 else "processes {} go"
    return f"is still being recorded ({whose}; {goes.format(some)} on): this is its state at {_now()}"


def _is_over(profile: Folder) -> bool:
    """Whether the recorder, or a process that began to seal the profile, has marked it as over."""
    if Index.read(profile.folder(SEALED)) is not None:
        return True
    try:
        with ControlPage.look(profile) as page:
            return page.state == ControlState.STOPPED
    except (AiflameError, OSError):
        # A recording that has just begun has a meta.json, but no page yet.
        return profile.entry(CONTROL_FILE) is None and Meta.read(profile).ended is not None


def _can_see(meta: Meta) -> bool:
    if meta.host.boot_id and meta.host.boot_id != boot_id():
        # The host has been restarted since, so no process of the recording can be left.
        return meta.host.is_here()
    return meta.recorder.namespace in ("", pid_namespace()) and (bool(meta.host.boot_id) or meta.host.is_here())


def _last_change(profile: Folder) -> float:
    control = profile.entry(CONTROL_FILE)
    tables = [entry for entry in profile.folder(SPOOL).walk() if entry.name.endswith(".table")]
    changes = [entry.status.st_mtime for entry in [*tables, *([control] if control else [])]]
    return max([profile.status().st_mtime, *changes])


def _now() -> str:
    return time.strftime("%H:%M:%S")
