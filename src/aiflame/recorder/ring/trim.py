"""Removes events that are older than the window from a recording that goes on.

The processes append to their tables and know nothing of a ring. We read which parts of a table have only old rows, and give their disk
blocks back. A thread reserves some rows ahead, and may fill them much later: such a row makes a part in the middle of a hole young again,
so parts behind us are looked at each time, too.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import parts
from aiflame.profile.folder.telemetry_files import FOLDER as TELEMETRY
from aiflame.profile.folder.telemetry_files import Packer, read_header
from aiflame.profile.spool.living import living
from aiflame.profile.spool.open_lives import LOOKS_FOLDER
from aiflame.profile.spool.window import BY_WINDOW, TIMES, Rows, newest_in, next_data, reserved, rows_of
from aiflame.recorder.ring.punch import punch

_BLOCK = 64 << 10
_PAGE = 4096
_YOUNG_BLOCKS = 64
"""After so many blocks with young rows, the rest of a table is not looked at: rows are appended roughly by time."""
_BEING_WRITTEN = 256 << 10
"""The end of a table, where rows may be half written, stays. So do tables that are smaller."""
_TELEMETRY_END = 16 << 10
_LARGEST_HEADER = 1 << 20


class Trimmer:
    def __init__(self, profile: Folder) -> None:
        self._profile = profile
        self._spool = profile.folder("spool")
        self._passed: dict[tuple[str, ...], int] = {}
        """Of each file, the end of the part in which all rows have been old once."""

    def trim(self, horizon_ns: int) -> int:
        """Removes events that ended before the horizon. Returns the bytes of disk given back; OSError if there is no way to do it."""
        freed = 0
        for names in self._folders():
            freed += self._of_process(names, horizon_ns)
        return freed + self._telemetry(horizon_ns)

    def remove_ended(self, horizon_ns: int) -> list[str]:
        """Removes the folders of processes that ended before the horizon, with or without saying so. Returns their names."""
        removed = []
        names = [names[0] for names in self._folders() if names[0] != LOOKS_FOLDER]
        over = {name: self._is_over(name, horizon_ns) for name in names}
        if "killed" in over.values() and self._others_live(names):
            over = {name: how for name, how in over.items() if how != "killed"}
        for name, how in over.items():
            if how:
                with contextlib.suppress(OSError):
                    self._spool.remove_tree(name)
                    self._spool.folder(LOOKS_FOLDER).remove_tree(name)
                    removed.append(name)
        gone = set(removed)
        self._passed = {key: end for key, end in self._passed.items() if not gone.intersection(key)}
        return removed

    def _folders(self) -> list[tuple[str, ...]]:
        names: list[tuple[str, ...]] = [(entry.name,) for entry in self._spool.entries() if entry.is_folder and entry.name != LOOKS_FOLDER]
        return names + [(LOOKS_FOLDER, name) for name in self._spool.folder(LOOKS_FOLDER).names()]

    def _of_process(self, names: tuple[str, ...], horizon_ns: int) -> int:
        folder = self._spool.folder(*names)
        large = {entry.name for entry in folder.entries() if entry.size > _BEING_WRITTEN}
        freed, limits = 0, dict.fromkeys(TIMES, horizon_ns)
        if f"{BY_WINDOW}.table" in large:
            limits[BY_WINDOW] = self._first_window(folder, horizon_ns)
        for table, limit in limits.items():
            if f"{table}.table" not in large:
                continue
            with folder.existing(f"{table}.table") as file:
                if file is not None:
                    rows = rows_of(table)
                    end = rows.header + reserved(file.fileno()) * rows.size
                    end = min(end, os.fstat(file.fileno()).st_size)
                    freed += self._punch_old((*names, table), file.fileno(), rows, end - _BEING_WRITTEN, limit)
        return freed

    def _punch_old(self, key: tuple[str, ...], descriptor: int, rows: Rows, end: int, limit: int) -> int:
        passed, young, freed = self._passed.get(key, 0), 0, 0
        at = -(-rows.header // _PAGE) * _PAGE
        while young < _YOUNG_BLOCKS and (data := next_data(descriptor, at)) is not None:
            at = data // _PAGE * _PAGE
            block = min(at // _BLOCK * _BLOCK + _BLOCK, end // _PAGE * _PAGE)
            if block <= at:
                break
            if rows.newest(descriptor, at, block) < limit:
                before = os.fstat(descriptor).st_blocks
                punch(descriptor, at, block)
                freed += max(before - os.fstat(descriptor).st_blocks, 0) * 512
                passed = max(passed, block)
            elif at >= passed:
                young += 1
            at = block
        self._passed[key] = passed
        return freed

    def _first_window(self, folder: Folder, horizon_ns: int) -> int:
        """The first row of `gpu_windows` that stays: samples of earlier ones go."""
        rows = rows_of("gpu_windows")
        with folder.file("gpu_windows.table") as file:
            if file is None:
                return 0
            row, last = max(reserved(file.fileno()), 1), 1
            while row > last and rows.newest(file.fileno(), at := rows.header + (row - 1) * rows.size, at + 1) >= horizon_ns:
                row -= 1
        return row

    def _telemetry(self, horizon_ns: int) -> int:
        freed = 0
        folder = self._profile.folder(TELEMETRY)
        sizes = {entry.name: entry.size for entry in folder.entries()}
        for part in parts(sizes):
            if part.end_ns is not None and part.end_ns < horizon_ns:
                folder.remove(part.name)
                freed += sizes[part.name]
        for entry in folder.entries():
            if not entry.is_file or entry.size <= _TELEMETRY_END + _PAGE:
                continue
            with folder.existing(entry.name) as file, contextlib.suppress(ValueError):
                if file is not None:
                    header, begin = read_header(file.read(_LARGEST_HEADER))
                    rows = Rows(Packer(len(header.series)).size, 0, header=begin)
                    freed += self._punch_old((TELEMETRY, entry.name), file.fileno(), rows, entry.size - _TELEMETRY_END, horizon_ns)
        return freed

    def _others_live(self, names: list[str]) -> bool:
        """True if a process records whose number here is not the one that it has in its own namespace: it may be any of `names`."""
        own_pids = {name.partition(".")[0] for name in names}
        return any(str(pid) not in own_pids for pid in living(lambda: names, self._profile.status()))

    def _is_over(self, name: str, horizon_ns: int) -> str:
        """`ended`, `killed`, or nothing."""
        pid, _, start = name.partition(".")
        rows = rows_of("process_ends")
        folder = self._spool.folder(name)
        with folder.file("process_ends.table") as file:
            ended = rows.newest(file.fileno(), rows.header, rows.header + _PAGE) if file is not None else 0
        if ended:
            return "ended" if ended < horizon_ns else ""
        # A process that was killed wrote no end: its last event counts.
        if Path(f"/proc/{pid}").exists() or not start.isdecimal():
            return ""
        return "killed" if max(newest_in(folder), int(start)) < horizon_ns else ""
