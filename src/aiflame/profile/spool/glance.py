"""A quick summary of a recording that is not sealed: the numbers of processes and samples, and the collector's notes.

Standard library alone: `aiflame record` prints it when the program has ended. It reads only recordings of our own. Counts may be a few
records too high, since they include records that were reserved and never written.
"""

from __future__ import annotations

import contextlib
import struct
import time

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.spool.open_lives import Reader
from aiflame.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_HEADER = struct.Struct("<QIIIIQ")
_HEADER_BYTES = 4096
_NOTE = struct.Struct("<IIQ")
_ENTRY = struct.Struct("<II")
_MOST_NOTES = 64
_LONGEST = 4096
_PATIENCE_S = 0.03
"""There may be thousands of processes. After this time the others are not counted."""


@dataclass(slots=True)
class Glance:
    processes: int = 0
    samples: int = 0
    all: bool = True
    """False: there were too many processes to count samples of each."""
    refusals: int = 0
    """Allocations that failed for lack of memory."""
    notes: list[str] = field(default_factory=list)


def glance(profile: Folder, patience_s: float = _PATIENCE_S) -> Glance:
    result = Glance()
    until = time.monotonic() + patience_s
    with contextlib.suppress(OSError, AiflameError):
        spool = profile.folder("spool")
        folders = [entry.name for entry in spool.entries() if entry.is_folder and entry.name[:1].isdigit()]
        result.processes = len({f"{pid}.{start}" for pid, start, _ in Reader().read(spool)}.union(folders))
        for name in folders:
            if time.monotonic() > until:
                result.all = False
                break
            result.samples += _records(spool, name, "cpu_samples")
            result.refusals += _records(spool, name, "memory_refusals")
            result.notes += [text for text in _notes(spool, name) if text not in result.notes]
    return result


def _records(spool: Folder, process: str, table: str) -> int:
    with spool.file(process, f"{table}.table") as file:
        header = file.read(_HEADER.size) if file is not None else b""
    return int(_HEADER.unpack(header)[5]) if len(header) == _HEADER.size else 0


def _notes(spool: Folder, process: str) -> list[str]:
    with spool.file(process, "notes.table") as file:
        if file is None:
            return []
        file.seek(_HEADER_BYTES)
        rows = file.read(_MOST_NOTES * _NOTE.size)
    places = [text for commit, text, _ in _NOTE.iter_unpack(rows[: len(rows) // _NOTE.size * _NOTE.size]) if commit and text]
    with spool.file(process, "strings.table") as file:
        return [text for place in places if file is not None and (text := _text(file, place))]


def _text(strings: BinaryIO, place: int) -> str:
    """An entry of the strings stream, as one line for a terminal."""
    strings.seek(_HEADER_BYTES + (place - 1) * 8)
    head = strings.read(_ENTRY.size)
    if len(head) < _ENTRY.size:
        return ""
    text = strings.read(min(_ENTRY.unpack(head)[1], _LONGEST)).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)
