"""Processes that have started and not ended, from `spool/lives.table`; used by the recorder and by `living.py`. Standard library alone."""

from __future__ import annotations

import struct

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, LIVES, LIVES_FILE, LIVES_IN_PAGE, LIVES_PAGE, LIVES_PAGE_BYTES
from aiflame.profile.schema.records import COMMIT, layout

LOOKS_FOLDER = "looks"
"""The folder in the spool for the recorder's looks. It has a folder for each process, named like the process's own folder."""

_BEGIN_BYTES, _END_BYTES = (layout((COMMIT, *half.columns))[1] for half in LIVES)
_BYTES = _BEGIN_BYTES + _END_BYTES
_PLACE = {column.name: offset for column, offset in layout((COMMIT, *LIVES[0].columns))[0]}
_CONTENT = struct.Struct("<IHH")
_LARGEST = 64 << 20
"""In bytes: half a million processes."""


class Reader:
    """Reads the records added since the last time."""

    def __init__(self) -> None:
        self._page = 0
        self._seen: set[tuple[int, int]] = set()
        """Page and place of records that were read, in pages that will be read again: a place may be reserved some time before its process
        writes to it."""

    def unfinished(self, spool: Folder) -> list[tuple[int, int]]:
        """(PID, start) of processes that have started since the last call and not ended."""
        return [(pid, start) for pid, start, ended in self.read(spool) if not ended]

    def read(self, spool: Folder) -> list[tuple[int, int, bool]]:
        """(PID, start, ended) of processes that have started since the last call."""
        with spool.file(LIVES_FILE) as file:
            if file is None:
                return []
            file.seek(HEADER_BYTES + self._page * LIVES_PAGE_BYTES)
            data = file.read(_LARGEST)
        lives, first = [], self._page
        for page in range(len(data) // LIVES_PAGE_BYTES):
            tag, records, _ = _CONTENT.unpack_from(data, page * LIVES_PAGE_BYTES)
            if tag != LIVES_PAGE:
                continue
            self._page = first + max(page - 1, 0)
            for place in range(min(records, LIVES_IN_PAGE)):
                at = page * LIVES_PAGE_BYTES + _CONTENT.size + place * _BYTES
                if struct.unpack_from("<I", data, at)[0] and (first + page, place) not in self._seen:
                    self._seen.add((first + page, place))
                    (pid,) = struct.unpack_from("<I", data, at + _PLACE["pid"])
                    (start,) = struct.unpack_from("<Q", data, at + _PLACE["start_ns"])
                    lives.append((pid, start, struct.unpack_from("<I", data, at + _BEGIN_BYTES)[0] != 0))
        self._seen = {place for place in self._seen if place[0] >= self._page}
        return lives
