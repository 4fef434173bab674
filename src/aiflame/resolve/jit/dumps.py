"""Names of code from files that a run-time compiler wrote: perf maps (`perf-PID.map`) and jitdumps (`jit-PID.dump`).

Other programs wrote these files, often in /tmp, and perhaps not for us: lines and records that cannot be parsed are ignored.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.home import home
from aiflame.resolve.files.outside import Outside
from aiflame.values import dataclass

LARGEST = 256 << 20
MOST_METHODS = 4_000_000

_MAGIC = 0x4A695444  # "JiTD", little-endian
_LOAD, _MOVE, _DEBUG = 0, 1, 2
_OVERLAPS = 64


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    start: int
    size: int
    lines: tuple[tuple[int, int, str], ...] = ()
    """(address, line, file), in order"""

    def line_at(self, address: int) -> tuple[str, int]:
        best = ("", 0)
        for start, line, file in self.lines:
            if start > address:
                break
            best = (file, line)
        return best


@dataclass(frozen=True, slots=True)
class Answer:
    method: Method
    certain: bool
    """False if other code was at the address at another time."""


class JitNames:
    """Methods by address, the newest first if several were at one address."""

    def __init__(self, methods: Iterable[Method]) -> None:
        listed = list(methods)
        starts = np.array([method.start for method in listed], dtype=np.uint64)
        order = np.argsort(starts, kind="stable")
        self._methods = [listed[at] for at in order]
        self._starts = starts[order]
        self._age = order

    def __len__(self) -> int:
        return len(self._methods)

    def lookup(self, address: int) -> Answer | None:
        last = int(np.searchsorted(self._starts, np.uint64(address), side="right"))
        places = range(max(last - _OVERLAPS, 0), last)
        covering = [at for at in places if address < self._methods[at].start + self._methods[at].size]
        if not covering:
            return None
        newest = self._methods[max(covering, key=lambda at: int(self._age[at]))]
        return Answer(newest, all(self._methods[at].name == newest.name for at in covering))


def jit_names(pid: int, started: float, cwd: str, profile: Folder, outside: Outside) -> JitNames:
    """The run-time compiled code of a process, from the recorder's copies; otherwise from files of this user that are not older than the
    process, since process ids are used again. `started`: seconds since 1970; 0: unknown, and then only the copies are used."""
    methods: list[Method] = []
    name = f"perf-{pid}.map"
    methods += perf_map(_kept(profile, name) or outside.written_by_process([Path("/tmp") / name], started, LARGEST) or b"")
    name = f"jit-{pid}.dump"
    folders = (Path("/tmp"), Path(cwd or "/"), *_perf_folders()) if outside.allowed else ()
    methods += jitdump(_kept(profile, name) or outside.written_by_process([folder / name for folder in folders], started, LARGEST) or b"")
    return JitNames(methods)


def perf_map(data: bytes) -> Iterator[Method]:
    """Lines of `START SIZE NAME`, in hexadecimal digits."""
    for line in data.split(b"\n", MOST_METHODS)[:MOST_METHODS]:
        parts = line.split(b" ", 2)
        if len(parts) == 3:
            try:
                start, size = int(parts[0], 16), int(parts[1], 16)
            except ValueError:
                continue
            if 0 < size < 1 << 32 and 0 <= start < 1 << 63 and (name := parts[2].strip()):
                yield Method(name.decode("utf-8", "replace"), start, size)


def jitdump(data: bytes) -> Iterator[Method]:
    """The records of a jitdump file that load and move code; the record with its lines comes before the code's own."""
    if len(data) < 40 or struct.unpack_from("<I", data)[0] != _MAGIC:
        return
    at = max(struct.unpack_from("<I", data, 8)[0], 40)
    lines: dict[int, tuple[tuple[int, int, str], ...]] = {}
    loaded: dict[int, Method] = {}
    while at + 16 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 16 or at + size > len(data):
            return
        body = data[at + 16 : at + size]
        at += size
        if kind == _LOAD and len(body) > 40:
            _, _, _, start, bytes_, index = struct.unpack_from("<IIQQQQ", body)
            name = body[40 : max(body.find(b"\0", 40), 40)].decode("utf-8", "replace")
            if name and 0 < bytes_ < 1 << 32 and start < 1 << 63:
                loaded[index] = Method(name, start, bytes_, lines.get(start, ()))
                yield loaded[index]
        elif kind == _MOVE and len(body) >= 48:
            _, _, _, old, new, bytes_, index = struct.unpack_from("<IIQQQQQ", body)
            if (method := loaded.get(index)) and 0 < bytes_ < 1 << 32 and new < 1 << 63:
                moved = tuple((address - old + new, line, file) for address, line, file in method.lines)
                yield Method(method.name, new, bytes_, moved)
        elif kind == _DEBUG and len(body) >= 16:
            start, count = struct.unpack_from("<QQ", body)
            lines[start] = tuple(_lines(body, count))


def _lines(body: bytes, count: int) -> Iterator[tuple[int, int, str]]:
    at, file = 16, ""
    for _ in range(count):
        end = body.find(b"\0", at + 16)
        if end < 0:
            return
        address, line, _ = struct.unpack_from("<QII", body, at)
        if body[at + 16 : end] != b"\xff":  # the same file as in the previous entry
            file = body[at + 16 : end].decode("utf-8", "replace")
        yield address, line, file
        at = end + 1


def _perf_folders() -> Iterator[Path]:
    """The folders in which perf's own agents put jitdumps."""
    for root in (os.environ.get("JITDUMPDIR"), home()):
        if root:
            yield from sorted(Path(root).glob(".debug/jit/*"))


def _kept(profile: Folder, name: str) -> bytes | None:
    with profile.file("jit", name) as file:
        return file.read(LARGEST) if file is not None else None
