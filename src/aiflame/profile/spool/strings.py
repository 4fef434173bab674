"""The strings stream of a process: all texts and blobs that its tables refer to.

The stream has 8-byte units, which follow the file's header. An entry is {u32 check word, u32 length, bytes padded with zeros}; a reference
is the place of its first unit, counted from 1; 0 is the empty text.
"""

from __future__ import annotations

import mmap
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES
from aiflame.profile.spool.check_words import Words, intact_entries

FILE_NAME = "strings.table"
TABLE_NUMBER = 0xFFFF
LONGEST = 1 << 20
"""In bytes; the collector cuts longer texts."""

_KEPT_MAPPED = 64 << 20


class Strings:
    """Random access to the stream; a missing or empty file is a stream without entries."""

    def __init__(self, folder: Folder, name: str = FILE_NAME) -> None:
        self._memory: mmap.mmap | None = None
        self._stream: Words = np.empty(0, np.uint64)
        with folder.file(name) as file:
            if file is None:
                return
            size = file.seek(0, 2)
            if size - HEADER_BYTES >= 8:
                self._memory = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
                self._stream = np.frombuffer(self._memory, "<u8", (size - HEADER_BYTES) // 8, HEADER_BYTES)

    def fetch(self, references: NDArray[np.uint32]) -> list[bytes | None]:
        """The bytes for distinct references; None where the entry is incomplete."""
        contents: list[bytes | None] = [b"" if reference == 0 else None for reference in references.tolist()]
        place, start, units, length = self._plausible(references)
        intact = intact_entries(self._stream, start, units)
        for at, first, size in zip(place[intact].tolist(), start[intact].tolist(), length[intact].tolist(), strict=True):
            begin = HEADER_BYTES + first * 8 + 8
            contents[at] = self._bytes(begin, size)
        self._release()
        return contents

    def _plausible(
        self, references: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Entries that lie within the stream: position in `references`, first unit, number of units, length in bytes."""
        total = len(self._stream)
        place = np.flatnonzero((references > 0) & (references.astype(np.int64) <= total))
        start = references[place].astype(np.int64) - 1
        length = (self._stream[start] >> np.uint64(32)).astype(np.int64)
        units = (length + 15) // 8
        fits = (length <= LONGEST) & (start + units <= total)
        place, start, units, length = place[fits], start[fits], units[fits], length[fits]
        # Real entries do not overlap, so together they are no longer than the stream. A damaged file could ask for far more, and take
        # hours: the excess is refused, beginning with the longest entries.
        shortest = np.argsort(units, kind="stable")
        kept = np.sort(shortest[np.cumsum(units[shortest]) <= total])
        return place[kept], start[kept], units[kept], length[kept]

    def _bytes(self, begin: int, size: int) -> bytes:
        assert self._memory is not None
        return self._memory[begin : begin + size]

    def _release(self) -> None:
        """Mapped pages count as our memory until they are released; a large stream would fill it."""
        if self._memory is not None and len(self._memory) > _KEPT_MAPPED:
            self._memory.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        self._stream = np.empty(0, np.uint64)
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __enter__(self) -> Strings:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
