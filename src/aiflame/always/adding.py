"""Adds recorded windows to the store, and merges the parts of hours that are over. It runs in a child of the agent, which keeps the agent
itself small: only here tables and names are read."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import time

from aiflame.always.facts import FILE as FACTS
from aiflame.always.facts import Facts
from aiflame.always.lines import tell
from aiflame.always.window import DONE, LEFT, PROFILE
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.store.layout import WAITING, hour_of, hours, parts, remove_hour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.store.tables import Tables

SEEN = "processes-"
"""The begin of the name of a file with processes that the agent has seen."""
_TRIED = "tried"
_LARGEST = 16 << 20
_LONGEST_LINE = 2000


def add_waiting(store: Folder) -> None:
    """Adds all windows that are complete. A window that ended this process three times is left out."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from aiflame.store.tables import together

    waiting = store.folder(WAITING)
    names = sorted(waiting.names())
    of_hours: dict[str, list[Tables]] = {}
    added = []
    for name in names:
        if name.startswith(SEEN):
            now = hour_of(time.time_ns())
            of_hours.setdefault(now, []).append(_processes(waiting, name))
        elif waiting.has_file(name, DONE):
            if (tables_of_window := _window(waiting, name)) is not None:
                of_hours.setdefault(hour_of(int(tables_of_window["windows"]["begin_ns"][0])), []).append(tables_of_window)
        else:
            continue
        added.append(name)
        gc.collect()
    for hour, tables in of_hours.items():
        _write(store, hour, together(tables))
    for name in added:
        waiting.remove_tree(name)


def merge_past(store: Folder) -> None:
    """Merges the parts of all hours but the present one."""
    from aiflame.store.tables import merge

    now = hour_of(time.time_ns())
    for hour in hours(store):
        if hour != now:
            try:
                merge(store, hour)
            except AiflameError as error:
                tell(f"hour {hour} is not merged: {error}")


def has_parts_to_merge(store: Folder) -> bool:
    now = hour_of(time.time_ns())
    return any(hour != now and len(parts(store, hour)) > 1 for hour in hours(store))


def write_processes(store: Folder, rows: list[dict[str, object]]) -> None:
    store.folder(WAITING).put(f"{SEEN}{time.time_ns()}", json.dumps(rows).encode("utf-8", "replace"))


def _window(waiting: Folder, name: str) -> Tables | None:
    """None: it is damaged, which costs one line."""
    from aiflame import open as open_profile
    from aiflame.always.rows import rows_of

    folder = waiting.folder(name)
    try:
        tries = len(folder.read(_TRIED, limit=_LARGEST) or b"")
        if tries > 2:
            tell(f"window {name} ended the process that read it three times: it is left out")
            return None
        with contextlib.suppress(OSError):  # a full disk: adding makes room
            folder.put(_TRIED, b"." * (tries + 1))
        facts = Facts.read(folder)
        if facts is None:
            tell(f"window {name} has no {FACTS}: it is left out")
            return None
        rows = rows_of(open_profile(folder.folder(PROFILE).path), facts, left=folder.read(DONE, limit=_LARGEST) == LEFT)
        if rows is None:
            tell(f"window {name} has ended before it has seen anything: it is left out")
    except Exception as error:  # damaged files raise errors of many kinds, and the other windows must go on
        tell(f"window {name} cannot be read and is left out: {type(error).__name__}: {error}"[:_LONGEST_LINE])
        rows = None
    folder.remove(_TRIED)
    return rows


def _processes(waiting: Folder, name: str) -> Tables:
    import polars as pl

    from aiflame.store.tables import COLUMNS, empty

    tables = empty()
    try:
        rows = json.loads(waiting.read(name, limit=_LARGEST) or b"[]")
        tables["processes"] = pl.DataFrame(rows, schema=dict(COLUMNS["processes"]))
    except (ValueError, TypeError, AiflameError, pl.exceptions.PolarsError) as error:
        tell(f"the list of processes {name} is damaged: {error}")
    return tables


def _write(store: Folder, hour: str, tables: Tables) -> None:
    """Where the disk is full, the oldest hours go, but for the one that is written."""
    from aiflame.store.tables import is_full, write

    while True:
        try:
            write(store, hour, tables)
            return
        except OSError as error:  # noqa: PERF203
            old = [one for one in hours(store) if one < hour]
            if not is_full(error) or not old:
                raise
            tell(f"the disk is full: hour {old[0]} removed from the store")
            remove_hour(store, old[0])
