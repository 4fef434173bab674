"""Frames and stacks of imported traces: distinct frames become words, and stacks a trie, as in a recording."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.making import Making
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_packing import ID, KIND
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class PythonFrame:
    function: str
    file: str
    first_line: int
    line: int = 0
    """that runs; 0: not known"""


@dataclass(frozen=True, slots=True)
class NamedFrame:
    name: str
    kind: Kind = Kind.C
    module: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class LayerFrame:
    """A torch module whose call the frame outside of this one evaluates."""

    layer: int
    """row of `layers`, which the reader writes"""


AnyFrame = PythonFrame | NamedFrame | LayerFrame


class Frames:
    """Distinct frames, by number."""

    def __init__(self) -> None:
        self.all: list[AnyFrame] = []
        self._numbers: dict[AnyFrame, int] = {}

    def number(self, frame: AnyFrame) -> int:
        number = self._numbers.setdefault(frame, len(self.all))
        if number == len(self.all):
            self.all.append(frame)
        return number

    def add_stacks(self, making: Making, process: Whole, parent: Whole, frame: Whole) -> Whole:
        """Writes `stacks`, with the tables that their words refer to. Each row is a call: its process, the row of its caller (an earlier
        one; -1: none) and its frame's number. Gives for each row the id of its stack in its process."""
        if not len(process):
            return np.zeros(0, dtype=np.int64)
        processes = int(process.max()) + 1
        all_parent = np.zeros(1 + processes + len(process), dtype=np.int32)
        all_parent[0] = -1
        all_parent[1 + processes :] = np.where(parent >= 0, parent + 1 + processes, 1 + process)
        all_frame = np.zeros(len(all_parent), dtype=np.uint32)
        all_frame[1 : 1 + processes] = np.arange(processes)
        all_frame[1 + processes :] = processes + frame
        merged_parent, merged_frame, place = nodes.merge_siblings(all_parent, all_frame)
        del all_parent, all_frame
        of_row = place[1 + processes :]
        own = np.zeros(len(merged_parent), dtype=np.int64)
        own[of_row] = process
        number = np.zeros(len(merged_parent), dtype=np.int64)
        is_inner = np.ones(len(merged_parent), dtype=np.bool_)
        is_inner[place[: 1 + processes]] = False
        inner = np.flatnonzero(is_inner)
        order = inner[np.argsort(own[inner], kind="stable")]
        begins = np.searchsorted(own[order], np.arange(processes))
        number[order] = np.arange(len(order)) - begins[own[order]] + 1
        word = self._words(making, own[order], merged_frame[order].astype(np.int64) - processes)
        rows = {"process": own[order], "id": number[order], "parent": number[np.maximum(merged_parent[order], 0)], "frame": word}
        making.add("stacks", pl.DataFrame(rows))
        return number.astype(np.int32)[of_row]

    def _words(self, making: Making, process: Whole, frame: Whole) -> NDArray[np.uint64]:
        """The word of each of these frames in its process."""
        pairs, which = np.unique(process << 32 | frame, return_inverse=True)
        codes: dict[tuple[int, str, str, int], int] = {}
        counts: dict[tuple[int, str], int] = {}
        rows: dict[str, list[tuple[object, ...]]] = {"codes": [], "named_frames": []}
        words = []
        for pair in pairs.tolist():
            owner, of = pair >> 32, self.all[pair & 0xFFFFFFFF]
            if isinstance(of, LayerFrame):
                words.append(FrameKind.LAYER << KIND | of.layer)
            elif isinstance(of, NamedFrame):
                row = counts[owner, "named"] = counts.get((owner, "named"), 0) + 1
                rows["named_frames"].append((owner, row, of.name, int(of.kind), of.module, of.file, of.line))
                words.append(FrameKind.NAMED << KIND | row)
            else:
                key = owner, of.file, of.function, of.first_line
                if key not in codes:
                    codes[key] = counts[owner, "codes"] = counts.get((owner, "codes"), 0) + 1
                    rows["codes"].append((owner, codes[key], of.first_line, of.file, of.function))
                lines = of.line - of.first_line + 1 if of.line else 0
                words.append(FrameKind.PYTHON << KIND | codes[key] << ID | max(lines, 0) & 0xFFFFFFFF)
        schema = {
            "codes": {"process": pl.Int64, "id": pl.Int64, "first_line": pl.Int64, "filename": pl.String, "qualname": pl.String},
            "named_frames": {
                "process": pl.Int64,
                "id": pl.Int64,
                "name": pl.String,
                "kind": pl.Int64,
                "module": pl.String,
                "file": pl.String,
                "line": pl.Int64,
            },
        }
        for table, columns in schema.items():
            making.add(table, pl.DataFrame(rows[table], schema=columns, orient="row"))
        return np.array(words, dtype=np.uint64)[which]
