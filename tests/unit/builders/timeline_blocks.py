"""The block of the report's timeline, read back as the page reads it."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.timeline.tables import SliceKind


@dataclass(frozen=True)
class Read:
    head: dict[str, Any]
    columns: dict[str, Any]

    @property
    def lane(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.columns["lane.count"])), self.columns["lane.count"])

    @property
    def times(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin and end of each slice, after the origin."""
        gap, length, lane = self.columns["slice.gap"], self.columns["slice.length"], self.lane
        begin = np.zeros(len(gap), dtype=np.int64)
        at = 0
        for row in range(len(gap)):
            at = 0 if row == 0 or lane[row] != lane[row - 1] else at
            at += gap[row] // 2 if gap[row] % 2 == 0 else -(gap[row] + 1) // 2
            begin[row] = at
            at += length[row]
        return begin, begin + length

    def lanes(self) -> list[tuple[str, int, int]]:
        """Track, kind and level of each lane."""
        names, tracks = self.columns["track.name"], self.columns["lane.track"]
        rows = zip(tracks, self.columns["lane.kind"], self.columns["lane.level"], strict=True)
        return [(names[track], int(kind), int(level)) for track, kind, level in rows]

    def rows(self, kind: SliceKind) -> NDArray[np.int64]:
        return np.flatnonzero(self.columns["slice.kind"] == kind)

    def names(self, rows: NDArray[np.int64]) -> list[str]:
        return [self.columns["name"][name] for name in self.columns["slice.name"][rows]]

    def facts(self, row: int) -> dict[str, Any]:
        """The facts of a slice: key → text or number, or the list of several."""
        texts = ["", *self.columns["text"]]
        facts: dict[str, Any] = {}
        for at in np.flatnonzero(self.columns["fact.set"] == self.columns["slice.facts"][row]).tolist():
            key = self.head["keys"][self.columns["fact.key"][at]]
            value = texts[self.columns["fact.text"][at]] or int(self.columns["fact.number"][at])
            facts[key] = [*facts[key], value] if isinstance(facts.get(key), list) else [facts[key], value] if key in facts else value
        return facts

    def place(self, track: int) -> str:
        """The names of a track and of those above it."""
        above = int(self.columns["track.parent"][track]) - 1
        name: str = self.columns["track.name"][track]
        return f"{self.place(above)} › {name}" if above >= 0 else name

    def slices(self) -> list[tuple[Any, ...]]:
        """All columns of each slice, in an order that does not depend on other slices."""
        begin, end = (times + self.head["origin_ns"] for times in self.times)
        _, first = np.unique(self.columns["slice.facts"], return_index=True)
        facts = {int(self.columns["slice.facts"][row]): self.facts(row) for row in first.tolist()}
        slices = []
        for row, lane in enumerate(self.lane.tolist()):
            where = self.place(self.columns["lane.track"][lane]), int(self.columns["lane.level"][lane])
            what = (
                SliceKind(self.columns["slice.kind"][row]).name,
                self.columns["name"][self.columns["slice.name"][row]],
                facts[self.columns["slice.facts"][row]],
            )
            numbers = tuple(int(self.columns[f"slice.{name}"][row]) for name in ("step", "delay"))
            slices.append((*where, int(begin[row]), int(end[row]), *what, *numbers))
        return sorted(slices, key=repr)


def read(block: bytes) -> Read:
    raw = gzip.decompress(block)
    (size,) = struct.unpack_from("<I", raw)
    head = json.loads(raw[4 : 4 + size])
    at, columns = 4 + size, dict[str, Any]()
    for name, kind, count, planes, _ in head["columns"]:
        if kind == "text":
            texts, start = [], at
            for length in columns[f"{name}.length"]:
                texts.append(raw[start : start + length].decode())
                start += length
            columns[name], at = texts, at + planes
            continue
        octets = np.zeros((count, 8), dtype=np.uint8)
        octets[:, :planes] = np.frombuffer(raw, np.uint8, count * planes, at).reshape(planes, count).T
        values = octets.view("<i8").reshape(-1)
        columns[name] = np.cumsum((values >> 1) ^ -(values & 1)) if kind == "delta" else values
        at += count * planes
    return Read(head, columns)
