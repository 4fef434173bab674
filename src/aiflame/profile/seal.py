"""Sealing: the spool of a recording that has ended becomes Parquet.

The tables are written to `tables.partial/`, which is renamed to `tables/` when all is there; then the spool goes. Whoever
dies on the way leaves a profile that the next one seals from the start, or finishes.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..errors import AiflameError
from .codes import ControlState
from .control import FILE_NAME as CONTROL_FILE
from .control import ControlPage
from .files import locked, sync, sync_tree
from .index import Index, Part, write_part
from .lives import Lives, read_lives
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


def seal(path: Path, progress: Callable[[float], None] | None = None) -> SealReport:
    """Seals a profile whose recording has ended, in whatever way; `progress` gets the share done, 0 to 1."""
    with _as_errors(path):
        if is_sealed(path):
            return SealReport()
        _refuse_live(path)
        with locked(path / _LOCK):
            report = SealReport()
            if Index.read(path / SEALED) is None:
                report = _write_tables(path, progress or _no_progress)
            _clear(path)
        (path / _LOCK).unlink(missing_ok=True)
        return report


def is_sealed(path: Path) -> bool:
    return (path / SEALED).is_dir() and not (path / SPOOL).exists()


def _no_progress(share: float) -> None:
    pass


@contextlib.contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            shutil.rmtree(path / _PARTIAL, ignore_errors=True)
            raise AiflameError(
                f"no space left to seal {path}: nothing is lost; free about {_gigabytes(path)} there and open it again"
            ) from None
        raise AiflameError(f"cannot seal {path}: {error.strerror or error}") from None


def _gigabytes(path: Path) -> str:
    bytes_left = sum(file.stat().st_size for file in (path / SPOOL).rglob("*.table"))
    return f"{max(bytes_left / 3e9, 0.01):.2f} GB"


def _refuse_live(path: Path) -> None:
    """A recording that still runs is left alone; its recorder sets the page to STOPPED before it seals."""
    meta = Meta.read(path)
    try:
        with ControlPage.open(path) as page:
            recording, recorder = page.state != ControlState.STOPPED, Recorder(page.recorder_pid)
    except AiflameError:
        recording, recorder = meta.recorder.pid > 0 and meta.ended is None, meta.recorder
    if not recording:
        return
    if meta.recorder.pid == recorder.pid:
        recorder = meta.recorder  # which knows its start, too
    is_here = meta.host.name in ("", Host.here().name)
    if recorder.alive() if is_here else time.time() - _last_change(path) < _STILL_WARM_S:
        raise AiflameError(f"{path} is still being recorded (by process {recorder.pid}): wait for its end or stop it first")


def _last_change(path: Path) -> float:
    return max((file.stat().st_mtime for file in (path, path / CONTROL_FILE, *path.glob("spool/*/*.table"))), default=0.0)


def _write_tables(path: Path, progress: Callable[[float], None]) -> SealReport:
    started = time.monotonic()
    meta = Meta.read(path).with_notes(*_stop(path))
    partial = path / _PARTIAL
    for leftover in (partial, path / SEALED):
        if leftover.exists():
            shutil.rmtree(leftover)
    partial.mkdir()
    rows = _process_rows(path / SPOOL)
    lives = _Lives(read_lives(path / SPOOL, {(folder.pid, folder.start_ns) for folder in rows}))
    spool_bytes = sum(folder.size for folder in rows) + lives.size
    writer, damage, done = _Writer(partial), Counter[str](lives.damage), lives.size
    for earlier, folder in enumerate(rows):
        number = earlier + lives.add_until((folder.start_ns, folder.pid), earlier, writer)
        writer.add("processes", number, folder.row)
        with ProcessSpool(folder.path) as spool:
            for name, frame in spool.chunks():
                writer.add(name, number, frame)
            damage.update(spool.damage)
        done += folder.size
        progress(done / max(spool_bytes, 1))
    lives.add_until(None, len(rows), writer)
    index, unread = add_telemetry(path, partial, writer.finish())
    index.write(partial)
    sync_tree(partial)  # the spool is removed soon: what replaces it must survive a power failure
    notes = (*(f"{count} {what}" for what, count in sorted(damage.items())), *unread)
    meta.with_notes(*notes).write(path)
    partial.rename(path / SEALED)
    sync(path)
    return SealReport(
        processes=len(rows) + len(lives),
        rows={name: sum(part.rows for part in parts) for name, parts in index.tables.items()},
        spool_bytes=spool_bytes,
        sealed_bytes=sum(part.bytes for parts in index.tables.values() for part in parts),
        seconds=time.monotonic() - started,
        notes=notes,
    )


def _stop(path: Path) -> list[str]:
    """No process shall write on while we read; returns why recording ended early, if it did."""
    try:
        page = ControlPage.open(path)
    except AiflameError:
        return []
    with page:
        page.state = ControlState.STOPPED
        note = page.stop_note()
    return [note] if note else []


@dataclass(frozen=True, slots=True)
class _Process:
    path: Path
    row: pl.DataFrame
    size: int

    @property
    def pid(self) -> int:
        return int(self.row["pid"][0])

    @property
    def start_ns(self) -> int:
        return int(self.row["start_ns"][0])


def _process_rows(spool: Path) -> list[_Process]:
    """The processes that recorded something, in the order of their start."""
    found = []
    for path in sorted(spool.iterdir()) if spool.is_dir() else []:
        if path.is_dir() and not path.is_symlink():
            with ProcessSpool(path) as folder:
                if len(row := folder.process()):
                    found.append(_Process(path, row, folder.size()))
    return sorted(found, key=lambda process: (process.start_ns, process.pid))


class _Lives:
    """Processes without a folder, on their way into the tables between those that have one."""

    def __init__(self, lives: Lives) -> None:
        self._lives, self._added = lives, 0
        self.size, self.damage = lives.bytes, lives.damage
        processes = lives.rows["processes"]
        self._keys = list(zip(processes["start_ns"].to_list(), processes["pid"].to_list(), strict=True))

    def __len__(self) -> int:
        return len(self._lives)

    def add_until(self, key: tuple[int, int] | None, others: int, writer: _Writer) -> int:
        """Adds those that began before `key` (None: all), numbered behind `others` processes. Returns how many were added so far."""
        first, last = self._added, len(self) if key is None else bisect_left(self._keys, key)
        for table, process in self._lives.process.items():
            begin, end = np.searchsorted(process, [first, last]).tolist()
            if begin < end:
                writer.add_many(table, process[begin:end] + np.uint32(others), self._lives.rows[table][begin:end])
        self._added = last
        return last


def _clear(path: Path) -> None:
    """What is not needed once `tables/` is there."""
    if (path / SPOOL).exists():
        shutil.rmtree(path / SPOOL)
    shutil.rmtree(path / TELEMETRY, ignore_errors=True)
    (path / CONTROL_FILE).unlink(missing_ok=True)


class _Writer:
    """Gathers frames until they are worth a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[str, list[tuple[NDArray[np.uint32], pl.DataFrame]]] = {}
        self._size: Counter[str] = Counter()
        self._parts: dict[str, list[Part]] = {}

    def add(self, table: str, process: int, frame: pl.DataFrame) -> None:
        self.add_many(table, np.full(len(frame), process, np.uint32), frame)

    def add_many(self, table: str, processes: NDArray[np.uint32], frame: pl.DataFrame) -> None:
        """`processes`: whose each row is."""
        self._waiting.setdefault(table, []).append((processes, frame))
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
        process = np.concatenate([processes for processes, _ in waiting])
        frame = pl.concat([frame for _, frame in waiting]).insert_column(0, pl.Series("process", process))
        parts = self._parts.setdefault(table, [])
        parts.append(write_part(self._folder, f"{table}/{len(parts):05}.parquet", frame))
