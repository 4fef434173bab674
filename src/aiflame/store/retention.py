"""Which hours of a store go: old ones, and the oldest where the store has grown too large or the disk is full. Standard library alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiflame.profile.folder.door import Folder
from aiflame.store.layout import HOUR_S, HOURS, begin_of, hours, remove_hour

_STEP_S = 600
"""The time of day has been set if it went on by so much more or less than the clock since boot, which does not stop in suspend."""
_DISTRUST_S = 86_400
"""For so long after such a step nothing is removed for its age."""
FREE_BYTES = 256 << 20
"""So much of the disk is left to others."""


class Retention:
    def __init__(
        self,
        store: Folder,
        keep_s: float,
        max_bytes: int,
        tell: Callable[[str], None],
        *,
        wall: Callable[[], float] = time.time,
        since_boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        free: Callable[[], int] | None = None,
    ) -> None:
        self._store, self._keep_s, self._max_bytes, self._tell = store, keep_s, max_bytes, tell
        self._wall, self._since_boot = wall, since_boot
        self._free = free or store.free_bytes
        self._offset = wall() - since_boot()
        self._trusted_from = since_boot()

    def look(self) -> list[str]:
        """Removes the hours that are too old or too many; their names."""
        return [*self._old(), *self._too_large()]

    def make_room(self) -> bool:
        """Where the disk is nearly full, removes the oldest hour, but for the newest: one each time, since another program may fill the
        disk, and the system may count freed space late. False: there is still too little room."""
        if self._free() < FREE_BYTES and len(there := hours(self._store)) > 1:
            remove_hour(self._store, there[0])
            self._tell(f"the disk is nearly full: {_hours(there[:1])} removed from the store")
        return self._free() >= FREE_BYTES

    def _old(self) -> list[str]:
        wall, now = self._wall(), self._since_boot()
        if abs(wall - now - self._offset) > _STEP_S:
            self._tell(f"the clock was set by {wall - now - self._offset:+,.0f} s: for a day no hour is removed for its age")
            self._offset, self._trusted_from = wall - now, now + _DISTRUST_S
        if now < self._trusted_from:
            return []
        old = [hour for hour in hours(self._store) if begin_of(hour) + HOUR_S < wall - self._keep_s]
        for hour in old:
            remove_hour(self._store, hour)
        return old

    def _too_large(self) -> list[str]:
        there = hours(self._store)
        size, gone = self._store.size(), []
        while size > self._max_bytes and len(there) > 1:
            oldest = there.pop(0)
            size -= self._store.folder(HOURS, oldest).size()
            remove_hour(self._store, oldest)
            gone.append(oldest)
        if gone:
            self._tell(f"the store is as large as it may be: {_hours(gone)} removed")
        return gone


def _hours(names: list[str]) -> str:
    return f"hour {names[0]}" if len(names) == 1 else f"{len(names)} hours, {names[0]} to {names[-1]},"
