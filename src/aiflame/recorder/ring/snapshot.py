"""Copies the window of a recording that goes on into a profile of its own, which is sealed like any other."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from aiflame.profile.folder import claims
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import UNKNOWN_SUFFIX, Part, parts
from aiflame.profile.folder.meta import Kept, Meta
from aiflame.profile.folder.telemetry_files import FOLDER as TELEMETRY
from aiflame.profile.folder.telemetry_files import Packer, read_header
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.spool.open_lives import LOOKS_FOLDER
from aiflame.profile.spool.window import BY_WINDOW, TIMES, Rows, next_data
from aiflame.values import replace

REQUESTS = "requests"
_NOT_COPIED = frozenset({"meta.json", "control", "spool", TELEMETRY, REQUESTS, "tables", "tables.partial", "seal.lock", "seal.failed"})
_LAST = ("threads.table", "kernel_shapes.table", "stacks.table", "strings.table")
"""Copied after the tables that refer to them: a row is written after those that it names."""
_PIECE = 16 << 20
_LARGEST_HEADER = 1 << 20


def snapshot(ring: Folder, place: Path, kept: Kept, meta: Meta) -> Folder:
    """Writes the rows of `kept`'s window to a new profile at `place`. (Rows around it go along; sealing leaves them out.)"""
    profile = Folder.new(place)
    identity = claims.new_id()
    claims.claim(profile, identity)
    ended = meta.started.shifted(kept.end_ns - meta.started.monotonic_ns)
    # Complete from the start: a command that opens it while it is copied waits for no recorder.
    replace(meta, id=identity, ended=ended, kept=kept, complete=True, exit_status=None, cpu_ns=0).put(profile)
    with ControlPage.create(profile) as page:
        page.state = ControlState.STOPPED
    spool = profile.new_folder("spool")
    _copy_spool(ring.folder("spool"), spool)
    _copy_telemetry(ring.folder(TELEMETRY), profile, kept)
    for entry in ring.entries():
        if entry.name not in _NOT_COPIED and not entry.name.endswith(".partial"):
            _copy_entry(ring, profile, entry.name, is_folder=entry.is_folder)
    return profile


def _copy_spool(ring: Folder, spool: Folder) -> None:
    for entry in ring.entries():
        if entry.name == LOOKS_FOLDER:
            looks = spool.new_folder(LOOKS_FOLDER)
            for name in ring.folder(LOOKS_FOLDER).names():
                _copy_process(ring.folder(LOOKS_FOLDER, name), looks.new_folder(name))
        elif entry.is_folder:
            _copy_process(ring.folder(entry.name), spool.new_folder(entry.name))
        else:
            _copy_file(ring, spool, entry.name)


def _copy_process(source: Folder, target: Folder) -> None:
    events = {f"{table}.table" for table in (*TIMES, BY_WINDOW)}
    names = sorted(source.names(), key=lambda name: (_LAST.index(name) + 2 if name in _LAST else name not in events, name))
    for name in names:
        _copy_file(source, target, name)


def _copy_entry(source: Folder, target: Folder, name: str, *, is_folder: bool) -> None:
    if not is_folder:
        _copy_file(source, target, name)
        return
    folder = target.make_folder(name)
    for entry in source.folder(name).entries():
        _copy_entry(source.folder(name), folder, entry.name, is_folder=entry.is_folder)


def _copy_file(source: Folder, target: Folder, name: str) -> None:
    """Copies the file without its holes; on some file systems both files then share blocks."""
    with source.file(name) as file:
        if file is None:
            return
        size = os.fstat(file.fileno()).st_size
        with target.create(name, durable=False) as copy:
            os.ftruncate(copy.fileno(), size)
            at: int | None = 0
            while at is not None and (at := next_data(file.fileno(), at)) is not None and at < size:
                end = min(_end_of_data(file.fileno(), at, size), at + _PIECE)
                _copy_part(file.fileno(), copy.fileno(), at, end)
                at = end


def _end_of_data(descriptor: int, at: int, size: int) -> int:
    try:
        return os.lseek(descriptor, at, os.SEEK_HOLE)
    except OSError:
        return size


def _copy_part(source: int, target: int, at: int, end: int) -> None:
    with contextlib.suppress(OSError):
        while at < end and (copied := os.copy_file_range(source, target, end - at, at, at)):
            at += copied
    while at < end and (data := os.pread(source, min(end - at, 1 << 20), at)):
        at += os.pwrite(target, data, at)


def _overlaps(part: Part, kept: Kept) -> bool:
    return part.begin_ns <= kept.end_ns and (part.end_ns is None or part.end_ns >= kept.begin_ns)


def _copy_telemetry(ring: Folder, profile: Folder, kept: Kept) -> None:
    """Copies only the window: these files have no ids."""
    names = ring.names()
    target = profile.make_folder(TELEMETRY) if names else profile
    of_stalls = {part.name: part for part in parts(names)}
    for name in names:
        if name in of_stalls or name.endswith(UNKNOWN_SUFFIX):
            if name not in of_stalls or _overlaps(of_stalls[name], kept):
                _copy_file(ring, target, name)  # sealing leaves blocks out
            continue
        with ring.file(name) as file, contextlib.suppress(ValueError):
            if file is None:
                continue
            header, begin = read_header(file.read(_LARGEST_HEADER))
            rows = Rows(Packer(len(header.series)).size, 0, header=begin)
            size = os.fstat(file.fileno()).st_size
            with target.create(name, durable=False) as copy:
                copy.write(os.pread(file.fileno(), begin, 0))
                at: int | None = begin
                while at is not None and (at := next_data(file.fileno(), at)) is not None and at < size:
                    end = min(at + _LARGEST_HEADER, size)
                    first, last = rows.around(max(at, begin), end)
                    data = os.pread(file.fileno(), last - first, first)
                    for place in range(0, len(data) - rows.size + 1, rows.size):
                        if kept.begin_ns <= int.from_bytes(data[place : place + 8], "little") <= kept.end_ns:
                            copy.write(data[place : place + rows.size])
                    at = last
