"""Finds steps that are slow, and steps that do not come, in the regions that the program's processes record. Standard library alone.

A step is a region that the program calls one (`step 12`, `iteration`, `train_step` …). If it names none, a step ends where an optimizer's
does, as in the views of a profile.
"""

from __future__ import annotations

import re
import struct
from collections import deque

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, TABLE
from aiflame.profile.schema.records import COMMIT, Type, layout
from aiflame.profile.spool.open_lives import LOOKS_FOLDER
from aiflame.profile.spool.window import reserved
from aiflame.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

NAMED_STEP = re.compile(r"(train(ing)?[ _-]?)?(step|iteration)\b|ProfilerStep#", re.IGNORECASE)
_OPTIMIZER, _OURS = "optimizer", "aiflame"
_FEWEST = 8
"""Before so many steps, none is called slow: the first ones compile and warm up."""
_MEDIAN_OF = 64
_PATIENCE_NS = 1_000_000_000
"""A row that is not written after this time never will be."""
_MOST_ROWS = 100_000
"""The most rows of a table that are read at a time."""


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    """in its process, from 0"""
    begin_ns: int
    end_ns: int
    median_ns: int
    """of the steps before it; 0: there are too few"""

    @property
    def took_ns(self) -> int:
        return self.end_ns - self.begin_ns

    def times_slower(self) -> float:
        return self.took_ns / self.median_ns if self.median_ns else 0.0


class Steps:
    """The steps of all processes of a recording, as they end."""

    def __init__(self, spool: Folder) -> None:
        self._spool = spool
        self._processes: dict[str, _Process] = {}

    def ended(self, now_ns: int) -> list[Step]:
        """The steps that have ended since the last call."""
        steps: list[Step] = []
        for entry in self._spool.entries():
            if entry.is_folder and entry.name != LOOKS_FOLDER:
                process = self._processes.setdefault(entry.name, _Process(self._spool.folder(entry.name)))
                steps += process.ended(now_ns)
        return steps

    def forget(self, process: str) -> None:
        self._processes.pop(process, None)


@dataclass(slots=True)
class _Process:
    folder: Folder
    open_regions: dict[int, tuple[str, int]] = field(default_factory=dict)
    """row → its kind of step, and its begin"""
    took: deque[int] = field(default_factory=lambda: deque(maxlen=_MEDIAN_OF))
    number: int = 0
    last_end_ns: int = 0
    names_steps: bool = False
    regions: _Reader = field(default_factory=lambda: _Reader("regions"))
    ends: _Reader = field(default_factory=lambda: _Reader("region_ends"))
    texts: dict[int, str] = field(default_factory=dict)

    def ended(self, now_ns: int) -> list[Step]:
        # Ends are looked at first, so that the regions they end are there.
        ends = list(self.ends.new(self.folder, now_ns))
        with self.folder.file("strings.table") as strings:
            for row, values in self.regions.new(self.folder, now_ns):
                kind = self._kind(strings, values) if strings is not None else ""
                if kind:
                    self.open_regions[row] = kind, values["begin_ns"]
        steps = []
        for _, values in ends:
            kind, begin_ns = self.open_regions.pop(values["region"], ("", 0))
            if kind == "named" and not self.names_steps:
                self.names_steps, self.number = True, 0
                self.took.clear()
            if kind == "named":
                steps.append(self._step(begin_ns, values["end_ns"]))
            elif kind == "optimizer" and not self.names_steps:
                if self.last_end_ns:
                    steps.append(self._step(self.last_end_ns, values["end_ns"]))
                self.last_end_ns = values["end_ns"]
        return steps

    def _step(self, begin_ns: int, end_ns: int) -> Step:
        median = sorted(self.took)[len(self.took) // 2] if len(self.took) >= _FEWEST else 0
        step = Step(self.number, begin_ns, end_ns, median)
        self.took.append(step.took_ns)
        self.number += 1
        return step

    def _kind(self, strings: BinaryIO, region: dict[str, int]) -> str:
        name = self._text(strings, region["name"])
        if name == _OPTIMIZER and self._text(strings, region["domain"]) == _OURS:
            return "optimizer"
        return "named" if NAMED_STEP.match(name) else ""

    def _text(self, strings: BinaryIO, reference: int) -> str:
        if reference not in self.texts:
            if len(self.texts) > _MOST_ROWS:
                self.texts.clear()
            strings.seek(HEADER_BYTES + (reference - 1) * 8 + 4)
            length = int.from_bytes(strings.read(4), "little")
            self.texts[reference] = strings.read(min(length, 256)).decode("utf-8", "replace") if reference else ""
        return self.texts[reference]


class _Reader:
    """Reads the rows that were added to a table."""

    def __init__(self, table: str) -> None:
        placed, self._size = layout((COMMIT, *TABLE[table].columns))
        self._name = f"{table}.table"
        self._columns = [column.name for column, _ in placed]
        end, text = 0, "<"
        for column, offset in placed:
            letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[int(column.type.numpy[-1])]
            text += f"{offset - end}x{letter}"
            end = offset + struct.calcsize(letter)
            assert column.type is not Type.I64
        self._struct = struct.Struct(f"{text}{self._size - end}x")
        self._read = 0
        self._waits_since_ns = 0

    def new(self, folder: Folder, now_ns: int) -> Iterator[tuple[int, dict[str, int]]]:
        """Ids and rows, up to one that is just being written."""
        with folder.file(self._name) as file:
            if file is None:
                return
            count = min(reserved(file.fileno()) - self._read, _MOST_ROWS)
            file.seek(HEADER_BYTES + self._read * self._size)
            data = file.read(max(count, 0) * self._size)
        first = self._read
        for place, values in enumerate(self._struct.iter_unpack(data[: len(data) // self._size * self._size])):
            if not values[0]:
                self._waits_since_ns = self._waits_since_ns or now_ns
                if now_ns - self._waits_since_ns < _PATIENCE_NS:
                    return
            self._waits_since_ns = 0
            self._read = first + place + 1
            if values[0]:
                yield self._read, dict(zip(self._columns, values, strict=True))
