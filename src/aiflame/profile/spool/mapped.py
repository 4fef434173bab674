"""The files that the processes of a finished recording had mapped as code, from their records. Standard library alone."""

from __future__ import annotations

import os
import struct
import time

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, TABLE
from aiflame.profile.schema.records import COMMIT, layout
from aiflame.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_PLACED, _BYTES = layout((COMMIT, *TABLE["modules"].columns))
_OFFSET = {column.name: offset for column, offset in _PLACED}
_MOST = 4096
"""The most modules that are read of one process."""
_LONGEST = 4096
_PATIENCE_S = 0.03
"""There may be thousands of processes, most of which have mapped the same files."""


@dataclass(frozen=True, slots=True)
class Mapped:
    path: str
    inode: int
    device: int


def mapped_files(spool: Folder, patience_s: float = _PATIENCE_S) -> Iterator[Mapped]:
    until = time.monotonic() + patience_s
    for entry in spool.entries():
        if time.monotonic() > until:
            return
        if entry.is_folder:
            yield from _of_process(spool.folder(entry.name))


def _of_process(folder: Folder) -> Iterator[Mapped]:
    with folder.file("modules.table") as modules, folder.file("strings.table") as strings:
        if modules is None or strings is None:
            return
        modules.seek(HEADER_BYTES)
        rows = modules.read(_MOST * _BYTES)
        for at in range(0, len(rows) - _BYTES + 1, _BYTES):
            commit, reference = (struct.unpack_from("<I", rows, at + _OFFSET[name])[0] for name in ("commit", "path"))
            inode, device = (struct.unpack_from("<Q", rows, at + _OFFSET[name])[0] for name in ("inode", "device"))
            if commit and reference and (path := _text(strings, reference)).startswith("/"):
                yield Mapped(path, inode, device)


def _text(strings: BinaryIO, reference: int) -> str:
    strings.seek(HEADER_BYTES + (reference - 1) * 8 + 4)
    length = int.from_bytes(strings.read(4), "little")
    return os.fsdecode(strings.read(min(length, _LONGEST)))
