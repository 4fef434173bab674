"""The clocks of a trace: times of packets become nanoseconds of one clock, by snapshots of several clocks at the same moments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.protobuf import fields, message, unsigned
from aiflame.values import dataclass, field

REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
_OF_SEQUENCES = range(64, 128)
"""Clocks that each sequence has for itself."""
_MOST = 1 << 62

Clock = tuple[int, int]
"""The sequence (0: all of them) and the number."""


def clock_of(sequence: int, number: int) -> Clock:
    return (sequence, number) if number in _OF_SEQUENCES else (0, number)


@dataclass(slots=True)
class Clocks:
    primary: int = 0
    """The clock of the trace; 0: not said."""
    _snapshots: list[dict[Clock, int]] = field(default_factory=list)
    _multipliers: dict[Clock, int] = field(default_factory=dict)
    _restarts: dict[Clock, list[tuple[int, int]]] = field(default_factory=dict)
    """Of clocks that count from packet to packet: the numbers of packets that set them, and their values then."""
    unknown: set[Clock] = field(default_factory=set)
    """Clocks that no snapshot leads from to that of the trace."""

    def add(self, packet: int, sequence: int, data: bytes) -> None:
        """A snapshot in a packet."""
        snapshot: dict[Clock, int] = {}
        for number, value in fields(data):
            if number == 2:
                self.primary = self.primary or unsigned(value)
            elif number == 1:
                one = {key: unsigned(of) for key, of in fields(message(value))}
                clock = clock_of(sequence, one.get(1, 0))
                multiplier = min(max(one.get(4, 1), 1), 10**9)
                moment = min(one.get(2, 0), _MOST // multiplier)
                self._multipliers[clock] = multiplier
                if one.get(3):
                    self._restarts.setdefault(clock, []).append((packet, moment))
                snapshot[clock] = moment * multiplier
        if snapshot:
            self._snapshots.append(snapshot)

    def default(self) -> int:
        """The clock of packets that name none."""
        return self.primary or BOOTTIME

    def realtime(self) -> int | None:
        """The time of day at time 0 of the trace's clock."""
        base, wanted = (0, self.default()), (0, REALTIME)
        return next((one[wanted] - one[base] for one in self._snapshots if wanted in one and base in one), None)

    def of_packets(self, packet: Whole, sequence: Whole, clock: Whole, timestamp: Whole) -> Whole:
        """The times of packets, which stand in the order of the trace, on its clock. `clock`: 0 is that of the trace."""
        clock = np.where(clock == 0, self.default(), clock)
        own = np.where((clock >= _OF_SEQUENCES.start) & (clock < _OF_SEQUENCES.stop), sequence, 0) << 32 | clock
        times: Whole = timestamp.copy()
        for key in np.unique(own).tolist():
            one = (key >> 32, key & 0xFFFFFFFF)
            here = np.flatnonzero(own == key)
            values = times[here]
            if one in self._restarts:
                values = self._added_up(one, packet[here], values)
            multiplier = self._multipliers.get(one, 1)
            values = np.clip(values, -_MOST // multiplier, _MOST // multiplier) * multiplier
            times[here] = self._converted(one, values)
        return times

    def _added_up(self, clock: Clock, packet: Whole, delta: Whole) -> Whole:
        """Values of a clock of which packets say how much it went on since the packet before."""
        at, value = (np.array(column, dtype=np.int64) for column in zip(*self._restarts[clock], strict=True))
        total = np.cumsum(np.clip(delta, 0, 1 << 40))
        last = np.searchsorted(at, packet, side="right") - 1
        first = np.searchsorted(packet, at)  # the first packet that counts from each restart
        before = np.append(0, total)[first]
        restart = np.maximum(last, 0)
        return np.where(last >= 0, value[restart] + total - before[restart], total)

    def _converted(self, clock: Clock, values: Whole) -> Whole:
        target = (0, self.default())
        path = self._path(clock, target)
        if path is None:
            self.unknown.add(clock)
            return values
        for one, other in pairwise(path):
            pairs = sorted({(each[one], each[other]) for each in self._snapshots if one in each and other in each})
            begin, end = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
            which = np.maximum(np.searchsorted(begin, values, side="right") - 1, 0)
            values = values + (end - begin)[which]
        return values

    def _path(self, clock: Clock, target: Clock) -> list[Clock] | None:
        """The shortest way over snapshots."""
        if clock == target:
            return [clock]
        beside: dict[Clock, set[Clock]] = {}
        for snapshot in self._snapshots:
            for each in snapshot:
                beside.setdefault(each, set()).update(snapshot)
        from_: dict[Clock, Clock] = {clock: clock}
        ahead = [clock]
        for one in ahead:
            for other in sorted(beside.get(one, ())):
                if other not in from_:
                    from_[other] = one
                    ahead.append(other)
        if target not in from_:
            return None
        path = [target]
        while path[-1] != clock:
            path.append(from_[path[-1]])
        return path[::-1]
