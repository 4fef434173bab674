"""Sealing: the spool of a recording that has ended becomes Parquet.

The tables are written to `tables.partial/`, which is renamed to `tables/` when all is there; then the spool goes. Whoever
dies on the way leaves a profile that the next one seals from the start, or finishes.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ..errors import AiflameError
from .codes import ControlState
from .control import FILE_NAME as CONTROL_FILE
from .control import ControlPage
from .door import Folder, refuse_foreign_entries
from .index import Index, Part, write_part
from .meta import Host, Meta, Recorder
from .schema import TABLES
from .spool import ProcessSpool
from .telemetry import add_telemetry
from .telemetry_format import FOLDER as TELEMETRY

SPOOL = "spool"
SEALED = "tables"

_PARTIAL = "tables.partial"
_LOCK = "seal.lock"
_PART_BYTES = 64 << 20
_STILL_WARM_S = 60.0


@dataclass(frozen=True, slots=True)
class SealReport:
    """What sealing did. All zero when the profile was sealed before."""

    processes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    spool_bytes: int = 0
    sealed_bytes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """damage met on the way, one line each"""


def seal(profile: Folder, progress: Callable[[float], None] | None = None) -> SealReport:
    """Seals a profile whose recording has ended, in whatever way; `progress` gets the share done, 0 to 1."""
    with _as_errors(profile, profile):
        if is_sealed(profile):
            return SealReport()
        refuse_foreign_entries(profile)
        _refuse_live(profile)
        with profile.locked(_LOCK):
            report = SealReport()
            if Index.read(profile.folder(SEALED)) is None:
                note = _stop(profile)
                report = _write_tables(profile, profile, note, progress or _no_progress)
            _clear(profile)
        profile.remove(_LOCK)
        return report


def seal_aside(profile: Folder, place: Folder, progress: Callable[[float], None] | None = None) -> SealReport:
    """The same for a profile that is not ours: its tables and its `meta.json` are written to `place`, and it stays as it is."""
    with _as_errors(profile, place):
        if Index.read(place.folder(SEALED)) is not None:
            return SealReport()
        _refuse_live(profile)
        with place.locked(_LOCK):
            if Index.read(place.folder(SEALED)) is not None:
                return SealReport()
            return _write_tables(profile, place, _why_stopped(profile), progress or _no_progress)


def is_sealed(profile: Folder) -> bool:
    return profile.has_folder(SEALED) and profile.entry(SPOOL) is None


def _no_progress(share: float) -> None:
    pass


@contextlib.contextmanager
def _as_errors(profile: Folder, place: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            with contextlib.suppress(OSError):
                place.remove_tree(_PARTIAL)
            raise AiflameError(
                f"no space left to seal {profile.path}: nothing is lost; free about {_gigabytes(profile)} in {place.path.parent}"
                " and open it again"
            ) from None
        raise AiflameError(f"cannot seal {profile.path}: {error.strerror or error}") from None


def _gigabytes(profile: Folder) -> str:
    bytes_left = sum(entry.size for entry in profile.folder(SPOOL).walk() if entry.name.endswith(".table"))
    return f"{max(bytes_left / 3e9, 0.01):.2f} GB"


def _refuse_live(profile: Folder) -> None:
    """A recording that still runs is left alone; its recorder sets the page to STOPPED before it seals."""
    meta = Meta.read(profile)
    try:
        with ControlPage.look(profile) as page:
            recording, recorder = page.state != ControlState.STOPPED, Recorder(page.recorder_pid)
    except AiflameError:
        recording, recorder = meta.recorder.pid > 0 and meta.ended is None, meta.recorder
    if not recording:
        return
    if meta.recorder.pid == recorder.pid:
        recorder = meta.recorder  # which knows its start, too
    is_here = meta.host.name in ("", Host.here().name)
    if recorder.alive() if is_here else time.time() - _last_change(profile) < _STILL_WARM_S:
        raise AiflameError(f"{profile.path} is still being recorded (by process {recorder.pid}): wait for its end or stop it first")


def _last_change(profile: Folder) -> float:
    control = profile.entry(CONTROL_FILE)
    tables = [entry for entry in profile.folder(SPOOL).walk() if entry.name.endswith(".table")]
    changes = [entry.status.st_mtime for entry in [*tables, *([control] if control else [])]]
    return max([profile.status().st_mtime, *changes])


def _write_tables(profile: Folder, place: Folder, notes: list[str], progress: Callable[[float], None]) -> SealReport:
    started = time.monotonic()
    meta = Meta.read(profile).with_notes(*notes)
    place.remove_tree(_PARTIAL)
    place.remove_tree(SEALED)
    partial = place.new_folder(_PARTIAL)
    rows = _process_rows(profile.folder(SPOOL))
    spool_bytes = sum(folder.size for folder in rows)
    writer, damage, done = _Writer(partial), Counter[str](), 0
    for number, folder in enumerate(rows):
        writer.add("processes", number, folder.row)
        with ProcessSpool(profile.folder(SPOOL, folder.name)) as spool:
            for name, frame in spool.chunks():
                writer.add(name, number, frame)
            damage.update(spool.damage)
        done += folder.size
        progress(done / max(spool_bytes, 1))
    index, unread = add_telemetry(profile, partial, writer.finish())
    index.write(partial)
    partial.sync_tree()  # the spool is removed soon: what replaces it must survive a power failure
    told = (*(f"{count} {what}" for what, count in sorted(damage.items())), *unread)
    meta.with_notes(*told).write(place)
    place.rename(_PARTIAL, SEALED)
    place.sync()
    return SealReport(
        processes=len(rows),
        rows={name: sum(part.rows for part in parts) for name, parts in index.tables.items()},
        spool_bytes=spool_bytes,
        sealed_bytes=sum(part.bytes for parts in index.tables.values() for part in parts),
        seconds=time.monotonic() - started,
        notes=told,
    )


def _stop(profile: Folder) -> list[str]:
    """No process shall write on while we read; returns why recording ended early, if it did."""
    with contextlib.suppress(AiflameError), ControlPage.open(profile) as page:
        page.state = ControlState.STOPPED
    return _why_stopped(profile)


def _why_stopped(profile: Folder) -> list[str]:
    with contextlib.suppress(AiflameError), ControlPage.look(profile) as page:
        return [note] if (note := page.stop_note()) else []
    return []


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    """of its folder"""
    row: pl.DataFrame
    size: int


def _process_rows(spool: Folder) -> list[_Process]:
    """The processes that recorded something, in the order of their start."""
    found = []
    for entry in spool.entries():
        if entry.is_folder:
            with ProcessSpool(spool.folder(entry.name)) as folder:
                if len(row := folder.process()):
                    found.append(_Process(entry.name, row, folder.size()))
    return sorted(found, key=lambda process: (process.row["start_ns"][0], process.row["pid"][0]))


def _clear(profile: Folder) -> None:
    """What is not needed once `tables/` is there."""
    profile.remove_tree(SPOOL)
    with contextlib.suppress(OSError):
        profile.remove_tree(TELEMETRY)
    profile.remove(CONTROL_FILE)


class _Writer:
    """Gathers frames until they are worth a file."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._waiting: dict[str, list[tuple[int, pl.DataFrame]]] = {}
        self._size: Counter[str] = Counter()
        self._parts: dict[str, list[Part]] = {}

    def add(self, table: str, process: int, frame: pl.DataFrame) -> None:
        self._waiting.setdefault(table, []).append((process, frame))
        self._size[table] += int(frame.estimated_size())
        if self._size[table] >= _PART_BYTES:
            self._flush(table)

    def finish(self) -> Index:
        for table in list(self._waiting):
            self._flush(table)
        order = [table.name for table in TABLES if table.name in self._parts]
        order += [name for name in self._parts if name not in order]
        return Index({name: tuple(self._parts[name]) for name in order})

    def _flush(self, table: str) -> None:
        waiting = self._waiting.pop(table)
        self._size[table] = 0
        process = np.repeat(*np.array([(process, len(frame)) for process, frame in waiting], np.uint32).T)
        frame = pl.concat([frame for _, frame in waiting]).insert_column(0, pl.Series("process", process))
        parts = self._parts.setdefault(table, [])
        parts.append(write_part(self._folder, table, f"{len(parts):05}", frame))
