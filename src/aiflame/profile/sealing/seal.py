"""Sealing: turns the spool of a finished recording into Parquet.

The tables are written to `tables.partial/`, which is renamed to `tables/` when it is complete; then the spool is removed. If a process dies
while it seals, the next one starts again, or finishes its work.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import FILE_NAME as CONTROL_FILE
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder, refuse_foreign_entries
from aiflame.profile.folder.meta import FILE_NAME as META_FILE
from aiflame.profile.folder.meta import Kept, Meta
from aiflame.profile.folder.telemetry_files import FOLDER as TELEMETRY
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.sealing.eu_stalls import EuStalls
from aiflame.profile.sealing.going_on import SEALED, still_recorded
from aiflame.profile.sealing.telemetry import add_telemetry
from aiflame.profile.sealing.unseen import CpuTime, notes_on, readable
from aiflame.profile.sealing.window import MISSING_WINDOWS, InWindow, ended_before, window_of, with_window
from aiflame.profile.spool.lives import Lives, read_lives
from aiflame.profile.spool.living import SPOOL
from aiflame.profile.spool.looks import OwnRows, looked_at, looks
from aiflame.profile.spool.process_spool import ProcessSpool
from aiflame.profile.spool.short_lives import with_ticks
from aiflame.profile.tables.index import Index
from aiflame.profile.tables.writer import TableWriter
from aiflame.values import dataclass, field, replace

_PARTIAL = "tables.partial"
LOCK = "seal.lock"
_LOOK_S = 0.2
_HIGHEST_RATE = 1_000_000


@dataclass(frozen=True, slots=True)
class SealReport:
    """The result of sealing. All zero if the profile was sealed before."""

    processes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    spool_bytes: int = 0
    sealed_bytes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """damage in the records, one line each"""


def seal(profile: Folder, progress: Callable[[float], None] | None = None) -> SealReport:
    """Seals a profile whose recording has ended in any way; `progress` is called with the share done, 0 to 1."""
    with _as_errors(profile, profile):
        if is_sealed(profile):
            return SealReport()
        refuse_foreign_entries(profile)
        _refuse_live(profile)
        with _one_at_a_time(profile, progress or _no_progress) as share_done:
            report = SealReport()
            if Index.read(profile.folder(SEALED)) is None:
                note = _stop(profile)
                report = _write_tables(profile, profile, note, share_done)
            _clear(profile)
        profile.remove(LOCK)
        return report


def seal_aside(profile: Folder, place: Folder, progress: Callable[[float], None] | None = None) -> SealReport:
    """Seals a profile that is not ours: writes its tables and its `meta.json` to `place`, and changes nothing in the profile."""
    with _as_errors(profile, place):
        if Index.read(place.folder(SEALED)) is not None:
            return SealReport()
        _refuse_live(profile)
        with place.locked(LOCK):
            if Index.read(place.folder(SEALED)) is not None:
                return SealReport()
            return _write_tables(profile, place, _why_stopped(profile), progress or _no_progress)


def seal_growing(profile: Folder, place: Folder, note: str, progress: Callable[[float], None] | None = None) -> SealReport:
    """Writes the present tables of a recording that goes on to `place`. No process is stopped, and the profile is not changed."""
    with _as_errors(profile, place):
        return _write_tables(profile, place, [note, *_why_stopped(profile)], progress or _no_progress, growing=True)


def is_sealed(profile: Folder) -> bool:
    return profile.has_folder(SEALED) and profile.entry(SPOOL) is None


@contextlib.contextmanager
def _one_at_a_time(profile: Folder, progress: Callable[[float], None]) -> Iterator[Callable[[float], None]]:
    """Other processes wait meanwhile, and see the progress. Yields a function to call with the share done."""
    descriptor = profile.lock_file(LOCK)
    try:
        _lock(descriptor, progress)

        def share_done(share: float) -> None:
            os.pwrite(descriptor, f"{share:.4f}".encode(), 0)
            progress(share)

        yield share_done
    finally:
        os.close(descriptor)


def _lock(descriptor: int, progress: Callable[[float], None]) -> None:
    """Waits for the lock. A holder that dies releases it, too."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        pass
    locked = threading.Event()

    def look() -> None:
        while not locked.wait(_LOOK_S):
            with contextlib.suppress(ValueError):
                progress(float(os.pread(descriptor, 8, 0) or b"0"))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        locked.set()
        looking.join()


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
    if (why := still_recorded(profile)) is not None:
        raise AiflameError(f"{profile.path} {why}; it is sealed when it has ended")


def _write_tables(
    profile: Folder, place: Folder, notes: list[str], progress: Callable[[float], None], *, growing: bool = False
) -> SealReport:
    started = time.monotonic()
    meta = Meta.read(profile)
    meta = replace(meta, degraded=()).with_notes(*notes, *meta.degraded) if growing else meta.with_notes(*notes)
    place.remove_tree(_PARTIAL)
    place.remove_tree(SEALED)
    partial = place.new_folder(_PARTIAL)
    cpu: list[CpuTime] = []
    spool = profile.folder(SPOOL)
    window = window_of(meta, spool, growing=growing)
    meta = with_window(meta, window)
    every = _process_rows(profile, meta.version, growing=growing)
    rows = [folder for folder in every if window is None or not _ended_before(spool, folder.name, window, growing=growing)]
    bounds = None if window is None else (window.begin_ns, window.end_ns)
    lives = _Lives(
        with_ticks(read_lives(spool, {(folder.pid, folder.start_ns) for folder in every}, bounds), _cpu_rate(meta)), spool, growing=growing
    )
    spool_bytes = sum(folder.size for folder in rows) + lives.size
    cpu.extend(lives.cpu_times())
    writer, damage, bytes_read = TableWriter(partial, _refuses_removed(profile)), lives.damage, lives.size
    stalls = EuStalls(profile, window)
    for earlier, folder in enumerate(rows):
        number = earlier + lives.add_until((folder.start_ns, folder.pid), earlier, writer)
        writer.add("processes", number, folder.row)
        stalls.begin(number, folder.pid, folder.start_ns)
        cpu.append(CpuTime())
        cpu[-1].add("processes", folder.row)
        own_rows, inside = OwnRows(), InWindow(window) if window is not None else None
        with ProcessSpool(spool.folder(folder.name), growing=growing) as tables:
            if inside is not None:
                inside.begin(tables)
            for name, whole in tables.chunks():
                frame = whole if inside is None else inside.rows(name, whole)
                writer.add(name, number, frame)
                cpu[-1].add(name, frame)
                own_rows.add(name, frame)
                stalls.add(number, name, frame)
            if window is not None:
                tables.damage.pop(MISSING_WINDOWS, None)
            if not growing:  # a record that is just being written is not damaged
                damage.update(tables.damage)
        if folder.name in lives.looked_at:
            for name, frame in looks(spool, folder.name, own_rows, damage, growing=growing):
                writer.add(name, number, frame if inside is None else inside.rows(name, frame))
        bytes_read += folder.size
        progress(bytes_read / max(spool_bytes, 1))
    lives.add_until(None, len(rows), writer)
    for name, number, frame in stalls.rows():
        writer.add(name, number, frame)
    stalls.keep_unknown(place)
    index, unread = add_telemetry(profile, partial, writer.finish())
    index.write(partial)
    partial.sync_tree()  # the spool will be removed, so the tables must survive a power failure
    degraded = (
        *(f"{count} {kind}" for kind, count in sorted(damage.items())),
        *unread,
        *stalls.notes,
        *_unseen(cpu, meta, notes, growing=growing or window is not None),
    )
    meta.with_notes(*degraded).write(place)
    place.rename(_PARTIAL, SEALED)
    place.sync()
    return SealReport(
        processes=len(rows) + len(lives),
        rows={name: sum(part.rows for part in parts) for name, parts in index.tables.items()},
        spool_bytes=spool_bytes,
        sealed_bytes=sum(part.bytes for parts in index.tables.values() for part in parts),
        seconds=time.monotonic() - started,
        notes=degraded,
    )


def _unseen(processes: list[CpuTime], meta: Meta, stopped: list[str], *, growing: bool) -> list[str]:
    """Notes on CPU time without samples; none while a recording goes on, since samples may still be on their way, and none for a window,
    since processes report the time of their whole life."""
    if growing:
        return []
    return notes_on(processes, meta.cpu_ns, _cpu_rate(meta), stopped[0] if stopped else None)


def _cpu_rate(meta: Meta) -> int:
    rate = meta.options.get("cpu_rate")
    return rate if isinstance(rate, int) and 0 < rate < _HIGHEST_RATE else 0


def _stop(profile: Folder) -> list[str]:
    """Orders all processes to stop writing, because their files will be read. Returns why recording ended early, if it did."""
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
    """name of its folder"""
    row: pl.DataFrame
    size: int

    @property
    def pid(self) -> int:
        return int(self.row["pid"][0])

    @property
    def start_ns(self) -> int:
        return int(self.row["start_ns"][0])


def _ended_before(spool: Folder, process: str, window: Kept, *, growing: bool) -> bool:
    with ProcessSpool(spool.folder(process), growing=growing) as tables:
        return ended_before(tables, window)


def _process_rows(profile: Folder, version: str, *, growing: bool) -> list[_Process]:
    """The processes that recorded something, in the order of their start. `version`: the version of aiflame that recorded them."""
    processes = []
    spool = profile.folder(SPOOL)
    for entry in spool.entries():
        if entry.is_folder:
            with ProcessSpool(spool.folder(entry.name), growing=growing) as folder:
                if table := folder.other_layout():
                    raise AiflameError(
                        f"{profile.path} was recorded by {f'aiflame {version}' if version else 'another version of aiflame'}, which lays"
                        f" records of {table} out in another way: open it once with that version, which seals it"
                    )
                if len(row := folder.process()):
                    processes.append(_Process(entry.name, row, folder.size()))
    return sorted(processes, key=lambda process: (process.start_ns, process.pid))


class _Lives:
    """Adds processes without a folder to the tables, between those that have one."""

    def __init__(self, lives: Lives, spool: Folder, *, growing: bool) -> None:
        self._lives, self._added = lives, 0
        self._spool, self._growing, self.looked_at = spool, growing, looked_at(spool)
        self.size, self.damage = lives.bytes, Counter[str]() if growing else Counter(lives.damage)
        processes = lives.rows["processes"]
        self._keys = list(zip(processes["start_ns"].to_list(), processes["pid"].to_list(), strict=True))

    def __len__(self) -> int:
        return len(self._lives)

    def cpu_times(self) -> list[CpuTime]:
        rows, process = self._lives.rows, self._lives.process
        times = [CpuTime(pid, readable(command)) for pid, command in rows["processes"].select("pid", "command").iter_rows()]
        for number, cpu_ns in zip(process["process_ends"].tolist(), rows["process_ends"]["cpu_ns"].to_list(), strict=True):
            times[number].cpu_ns = cpu_ns
        return times

    def add_until(self, key: tuple[int, int] | None, others: int, writer: TableWriter) -> int:
        """Adds those that began before `key` (None: all), numbered behind `others` processes. Returns how many were added so far."""
        last = len(self) if key is None else bisect_left(self._keys, key)
        for number in range(self._added, last):
            start_ns, pid = self._keys[number]
            if f"{pid}.{start_ns}" in self.looked_at:
                own_rows = OwnRows()
                for table, frame in self._add(number + 1, others, writer, of=number):
                    own_rows.add(table, frame)
                for table, frame in looks(self._spool, f"{pid}.{start_ns}", own_rows, self.damage, growing=self._growing):
                    writer.add(table, number + others, frame)
        self._add(last, others, writer)
        return last

    def _add(self, last: int, others: int, writer: TableWriter, of: int = -1) -> list[tuple[str, pl.DataFrame]]:
        """Adds those before the `last`; returns the rows of process `of`."""
        rows = []
        for table, process in self._lives.process.items():
            begin, end = np.searchsorted(process, [self._added, last]).tolist()
            if begin < end:
                writer.add_many(table, process[begin:end] + np.uint32(others), self._lives.rows[table][begin:end])
                rows.append((table, self._lives.rows[table][begin:end].filter(pl.Series(process[begin:end] == of))))
        self._added = last
        return rows


def _refuses_removed(profile: Folder) -> Callable[[], None]:
    """Stops a sealer whose profile is being removed: new files would keep the remover from removing the folder."""
    described = profile.entry(META_FILE) is not None

    def refuse() -> None:
        if described and profile.entry(META_FILE) is None:
            raise AiflameError(f"{profile.path} is being removed")

    return refuse


def _clear(profile: Folder) -> None:
    """Removes the files that are not needed once `tables/` exists."""
    profile.remove_tree(SPOOL)
    with contextlib.suppress(OSError):
        profile.remove_tree(TELEMETRY)
    profile.remove(CONTROL_FILE)
