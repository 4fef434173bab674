"""Who has begun by `spool/lives.table`, and has not ended: for the recorder, and for whoever asks who lives. Standard library alone."""

from __future__ import annotations

import struct

from .door import Folder
from .records import COMMIT, layout
from .schema import HEADER_BYTES, LIVES, LIVES_FILE

_BEGIN_BYTES, _END_BYTES = (layout((COMMIT, *half.columns))[1] for half in LIVES)
_BYTES = _BEGIN_BYTES + _END_BYTES
_PLACE = {column.name: offset for column, offset in layout((COMMIT, *LIVES[0].columns))[0]}
_LARGEST = 64 << 20
"""Bytes: half a million processes that are looked at at once."""


class Reader:
    """Reads what was appended since the last time."""

    def __init__(self) -> None:
        self._at = HEADER_BYTES

    def unfinished(self, spool: Folder) -> list[tuple[int, int]]:
        """(PID, start) of those that began since the last time and have not ended."""
        return [(pid, start) for pid, start, ended in self.read(spool) if not ended]

    def read(self, spool: Folder) -> list[tuple[int, int, bool]]:
        """(PID, start, whether it has ended) of those that began since the last time."""
        with spool.file(LIVES_FILE) as file:
            if file is None:
                return []
            file.seek(self._at)
            data = file.read(_LARGEST)
        found, last = [], 0
        for at in range(0, len(data) - _BYTES + 1, _BYTES):
            if struct.unpack_from("<I", data, at)[0]:
                last = at + _BYTES
                (pid,) = struct.unpack_from("<I", data, at + _PLACE["pid"])
                (start,) = struct.unpack_from("<Q", data, at + _PLACE["start_ns"])
                found.append((pid, start, struct.unpack_from("<I", data, at + _BEGIN_BYTES)[0] != 0))
        self._at += last
        return found
