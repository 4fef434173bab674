"""The content of files of profilers that sample stacks: processes, threads, stacks, and for each stack times or other values."""

from __future__ import annotations

from array import array

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.metrics import MOST_OWN
from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, Frames
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

CPU, WALL = 0, 1
"""Clocks."""
NO_TIME = -(1 << 63)
"""The moment of a sample whose moment the file lacks."""
_PERIOD_NS = 4_000_000_000
"""A sample's period is a number of 32 bits, its weight one of 16, and a sample stands for 19 hours at most: longer times are several."""
_HEAVIEST = 8_000
DEEPEST = 1 << 14
"""Frames of a stack; deeper ones are refused."""
_MOST_CALLS = 8_000_000
"""Distinct places of all stacks: more do not fit into 2 GB."""
_MOST_ROWS = 20_000_000
_LONGEST = 1 << 59
_FARTHEST = 1 << 62
"""Moments lie this far from the begin of their clock at most; since 1970 it has been 2^61 ns nearly."""
_MOST_NUMBER = 1 << 32
_TIMES = 6
"""The numbers of a row of times: owner (thread and process), call, clock, ns, moment, state."""
_VALUES = 5
"""The numbers of a row of values: owner, call, kind, value, moment."""
_BLOCKS = 8
"""The numbers of a row of blocks: owner, call, memory, bytes, begin, end, address, bytes of the pool's block."""
_SEGMENTS = 9
"""The numbers of a row of segments: owner, memory, pool, whether it is expandable, stream, address, bytes, begin, end."""
_REFUSALS = 6
"""The numbers of a row of refusals: owner, call, memory, bytes, free bytes, moment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory that a pool of a library has from the driver in one piece."""

    address: int
    size: int
    stream: int = 0
    pool: str = ""
    expandable: bool = False
    begin: int = NO_TIME
    end: int = NO_TIME


class Sampled:
    """Rows of an imported profile, in the order of the file. Moments are nanoseconds of any clock: the first becomes FIRST_NS."""

    def __init__(self, making: Making) -> None:
        self.making = making
        self.frames = Frames()
        self._processes: dict[int | str, int] = {}
        self._owners: list[tuple[int, str]] = []
        self._threads: dict[tuple[int, int | str], tuple[int, int, str]] = {}
        self._threads_of: list[int] = []
        self._kinds: dict[tuple[str, str], tuple[int, str]] = {}
        self._calls: dict[tuple[int, int, int], int] = {}
        self._call_process, self._call_parent, self._call_frame = array("q"), array("q"), array("q")
        self._memories: dict[str, int] = {}
        self._pools: dict[str, int] = {}
        # Row by row, see _TIMES, _VALUES, _BLOCKS, _REFUSALS and _SEGMENTS.
        self._times, self._values, self._blocks, self._refusals, self._segments = (array("q") for _ in range(5))

    @property
    def processes(self) -> int:
        """The number of processes so far."""
        return len(self._owners)

    def process(self, pid: int = 0, name: str = "", key: str = "") -> int:
        """A process, by its key, else by its number, else by its name; the latest name counts. None known: it has no frame in trees."""
        number = self._processes.setdefault(key or pid or name, len(self._processes))
        if number == len(self._owners):
            self._owners.append((pid, name))
            self._threads_of.append(0)
        elif name:
            self._owners[number] = pid, name
        return number

    def thread(self, process: int, tid: int = 0, name: str = "") -> int:
        """The row of a thread, by its number, else by its name; the latest name counts. Neither known: 0."""
        if not tid and not name:
            return 0
        key = process, tid or name
        row = self._threads.get(key)
        if row is None:
            self._threads_of[process] += 1
            row = self._threads[key] = self._threads_of[process], tid, name
        elif name and row[2] != name:
            self._threads[key] = row[0], tid, name
        return row[0]

    def call(self, process: int, parent: int, frame: AnyFrame) -> int:
        """A frame below another call (-1: none); equal ones are one."""
        return self.numbered_call(process, parent, self.frames.number(frame))

    def numbered_call(self, process: int, parent: int, frame: int) -> int:
        key = process, parent, frame
        row = self._calls.get(key)
        if row is None:
            row = self._calls[key] = len(self._call_parent)
            if row == _MOST_CALLS:
                raise AiflameError(f"the stacks of the file have more than {_MOST_CALLS:,} distinct places: too many to import")
            self._call_process.append(process)
            self._call_parent.append(parent)
            self._call_frame.append(frame)
        return row

    def kind(self, name: str, unit: str, label: str = "") -> int:
        """A kind of values; the first one that is asked for is the one that the profile means most."""
        if (name, unit) not in self._kinds:
            if len(self._kinds) == MOST_OWN:
                raise AiflameError(f"the file has more than {MOST_OWN} kinds of values: no profiler writes so many")
            self._kinds[name, unit] = len(self._kinds), label
        return self._kinds[name, unit][0]

    def value(self, process: int, thread: int, call: int, kind: int, value: int, at: int = NO_TIME) -> None:
        """A value of a stack, by its innermost call (-1: no stack)."""
        self._values.extend((thread | process << 32, call, kind, max(-_LONGEST, min(value, _LONGEST)), _moment(at)))

    def time(self, process: int, thread: int, call: int, clock: int, ns: int, at: int = NO_TIME, *, waits: bool = False) -> None:
        """Time of a thread with a stack. `at`: its end."""
        if ns > 0:
            state = int(SampleState.WAITING if waits else SampleState.ON_CPU)
            self._times.extend((thread | process << 32, call, clock, min(ns, _LONGEST), _moment(at), state))

    def many(self, process: Ints, thread: Ints, call: Ints, value: Ints, at: Ints, *, clock: int | None = None, kind: int = 0) -> None:
        """A row for each element: times on a CPU (`clock`) as by `time`, else values as by `value`."""
        owner, longest = thread | process << 32, np.clip(value, -_LONGEST, _LONGEST)
        if clock is None:
            rows = np.column_stack((owner, call, np.full_like(owner, kind), longest, at))
            self._values.frombytes(rows.astype(np.int64).tobytes())
        else:
            state = np.full_like(owner, int(SampleState.ON_CPU))
            rows = np.column_stack((owner, call, np.full_like(owner, clock), longest, at, state))[value > 0]
            self._times.frombytes(rows.astype(np.int64).tobytes())

    def block(
        self,
        process: int,
        call: int,
        memory: str,
        size: int,
        begin: int = NO_TIME,
        end: int = NO_TIME,
        place: tuple[int, int] = (0, 0),
    ) -> None:
        """A block of memory with the stack that allocated it. Without `begin` it was there before the file's first moment, without `end` it
        is live at the last. `place`: its address in a pool, and the bytes that the pool took for it."""
        number = self._memories.setdefault(memory, len(self._memories))
        address, block_bytes = (min(one, _FARTHEST) for one in place)
        self._blocks.extend((process << 32, call, number, min(size, _LONGEST), _moment(begin), _moment(end), address, block_bytes))

    def segment(self, process: int, memory: str, segment: Segment) -> None:
        """Memory that a pool has from the driver. Its moments may be NO_TIME, as in `block`."""
        number = self._memories.setdefault(memory, len(self._memories))
        place = (min(one, _FARTHEST) for one in (segment.stream, segment.address, segment.size))
        moments = (_moment(segment.begin), _moment(segment.end))
        pool = self._pools.setdefault(segment.pool, len(self._pools))
        self._segments.extend((process << 32, number, pool, int(segment.expandable), *place, *moments))

    def refusal(self, process: int, call: int, memory: str, size: int, free: int, at: int) -> None:
        """An allocation that failed, because no more than `free` bytes were there."""
        number = self._memories.setdefault(memory, len(self._memories))
        self._refusals.extend((process << 32, call, number, min(size, _LONGEST), min(free, _LONGEST), _moment(at)))

    def finish(self) -> None:
        """Writes everything."""
        making = self.making
        if not self._owners:
            self.process()
        of_calls = self.frames.add_stacks(
            making, *(np.array(column, dtype=np.int64) for column in (self._call_process, self._call_parent, self._call_frame))
        )
        stack = np.append(of_calls.astype(np.int64), 0)  # call -1
        times, values = _columns(self._times, _TIMES), _columns(self._values, _VALUES)
        blocks, refusals = _columns(self._blocks, _BLOCKS), _columns(self._refusals, _REFUSALS)
        segments = _columns(self._segments, _SEGMENTS)
        moments = times[4], values[4], *blocks[4:6], refusals[5], *segments[7:]
        first = self._shift(*moments)
        self._add_owners()
        self._add_times(times, stack)
        self._add_values(values, stack)
        self._add_memory("memory_blocks", ("bytes", "begin_ns", "end_ns", "address", "block_bytes"), blocks, stack)
        self._add_memory("memory_refusals", ("bytes", "free_bytes", "time_ns"), refusals, stack)
        self._add_segments(segments)
        moments = tuple(column[column != 0] for column in moments)
        making.last_ns = max([first, *(int(column.max()) for column in moments if len(column))])

    def _shift(self, *moments: Ints) -> int:
        """Puts moments on the profile's clock; 0 for none."""
        real = np.concatenate([column[column != NO_TIME] for column in moments])
        first = int(real.min()) if len(real) else 0
        if len(real) and int(real.max()) - first > _LONGEST:
            raise AiflameError("the times of the file lie more than 36 years apart: it is damaged")
        for column in moments:
            column[:] = np.where(column == NO_TIME, 0, column - np.int64(first) + FIRST_NS)
        return FIRST_NS

    def _add_owners(self) -> None:
        rows = [(number, 1, _number(pid), FIRST_NS, name) for number, (pid, name) in enumerate(self._owners)]
        names = ["process", "id", "pid", "start_ns", "command"]
        self.making.add("processes", pl.DataFrame(rows, schema=names, orient="row"))
        threads = [(process, row, _number(tid), FIRST_NS, name) for (process, _), (row, tid, name) in self._threads.items()]
        if threads:
            self.making.add("threads", pl.DataFrame(threads, schema=["process", "id", "tid", "start_ns", "name"], orient="row"))

    def _add_times(self, columns: list[Ints], stack: Ints) -> None:
        owner, call, clock, ns, at, state = columns
        many, remainder = ns // _PERIOD_NS, ns % _PERIOD_NS
        pieces = -(-many // _HEAVIEST)
        if len(ns) + int(pieces.sum()) > _MOST_ROWS + 2 * len(ns):
            raise AiflameError("the times of the file add up to thousands of years: it is damaged")
        which = np.repeat(np.arange(len(ns)), pieces)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        short = np.flatnonzero(remainder)
        row = np.concatenate([short, which])
        weight = np.concatenate([np.ones(len(short), dtype=np.int64), np.minimum(many[which] - nth * _HEAVIEST, _HEAVIEST)])
        period = np.concatenate([remainder[short], np.full(len(which), _PERIOD_NS)])
        row, weight, period = (column[np.argsort(row, kind="stable")] for column in (row, weight, period))
        table = {
            "process": owner[row] >> 32,
            "thread": owner[row] & 0xFFFFFFFF,
            "stack": stack[call[row]],
            "weight": weight,
            "time_ns": at[row],
            "period_ns": period,
            "state": state[row],
            "clock": clock[row],
        }
        self.making.add("cpu_samples", pl.DataFrame(table))

    def _add_values(self, columns: list[Ints], stack: Ints) -> None:
        owner, call, kind, value, at = columns
        every = range(len(self._owners))
        kinds = [(process, row + 1, name, unit, label) for process in every for (name, unit), (row, label) in self._kinds.items()]
        if kinds:
            self.making.add("value_kinds", pl.DataFrame(kinds, schema=["process", "id", "name", "unit", "label"], orient="row"))
        table = {
            "process": owner >> 32,
            "thread": owner & 0xFFFFFFFF,
            "stack": stack[call],
            "kind": kind + 1,
            "value": value,
            "time_ns": at,
        }
        self.making.add("stack_values", pl.DataFrame(table))

    def _add_memory(self, table: str, names: tuple[str, ...], columns: list[Ints], stack: Ints) -> None:
        owner, call, memory, *numbers = columns
        rows = {"process": owner >> 32, "stack": stack[call], **dict(zip(names, numbers, strict=True))}
        named = pl.Series([*self._memories], dtype=pl.String).gather(memory)
        self.making.add(table, pl.DataFrame(rows).with_columns(memory=named))

    def _add_segments(self, columns: list[Ints]) -> None:
        owner, memory, pool, *numbers = columns
        names = ("expandable", "stream", "address", "bytes", "begin_ns", "end_ns")
        rows = pl.DataFrame({"process": owner >> 32, **dict(zip(names, numbers, strict=True))})
        named = {"memory": (self._memories, memory), "pool": (self._pools, pool)}
        texts = [pl.Series(column, [*texts], dtype=pl.String).gather(which) for column, (texts, which) in named.items()]
        self.making.add("memory_segments", rows.with_columns(texts))


def _columns(rows: array[int], many: int) -> list[Ints]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, many).T.copy())


def _moment(at: int) -> int:
    return at if at == NO_TIME else max(-_FARTHEST, min(at, _FARTHEST))


def _number(given: int) -> int:
    """An id of a process or thread; 0 where it is none."""
    return given if 0 <= given < _MOST_NUMBER else 0


def native_kind(name: str) -> Kind:
    """The kind of a function that is no Python, by its name."""
    return Kind.CPP if "::" in name or "<" in name else Kind.C


def number_of(written: bytes) -> int:
    """A number in digits, or behind 0x in hexadecimal ones."""
    return int(written, 16) if written.startswith(b"0x") else int(written)
