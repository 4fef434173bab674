"""Reads the memory of another process, in which every address may be wrong."""

from __future__ import annotations

import os

_HIGHEST = 1 << 47


class UnreadableError(Exception):
    """There is no such memory, or the process has ended."""


class Memory:
    def __init__(self, pid: int) -> None:
        """PermissionError if the system does not let us read the process."""
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        data = self.read_some(address, size)
        if len(data) < size:
            raise UnreadableError
        return data

    def read_some(self, address: int, most: int) -> bytes:
        """Reads at most to the end of the mapping."""
        if not 4096 <= address < _HIGHEST - most:
            raise UnreadableError
        try:
            return os.pread(self._file, most, address)
        except OSError:
            raise UnreadableError from None

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")


class Window:
    """Reads with few calls things that are near one another, mostly below the previous one."""

    BELOW, SIZE = 3 << 10, 4 << 10

    def __init__(self, memory: Memory) -> None:
        self._memory, self._low, self._data = memory, 0, b""

    def read(self, address: int, size: int) -> bytes:
        begin = address - self._low
        if not 0 <= begin <= len(self._data) - size:
            try:
                self._low = address - self.BELOW
                self._data = self._memory.read_some(self._low, self.SIZE)
            except UnreadableError:
                self._low, self._data = address, self._memory.read(address, size)
            begin = address - self._low
            if begin > len(self._data) - size:
                return self._memory.read(address, size)
        return self._data[begin : begin + size]
