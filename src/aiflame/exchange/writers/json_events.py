"""Events of Chrome's JSON as text, for millions at once."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.exchange.writers.event_text import Piece, Texts, chosen, written
from aiflame.json_text import json_text

LONGEST = 4096
"""Letters of a name or of a fact: viewers measure and draw each of them."""


class EventFile:
    """The list `traceEvents` of a file that is written as its events come."""

    def __init__(self, file: TextIO, head: dict[str, object]) -> None:
        self.events = 0
        self._file = file
        members = "".join(f"{quoted(key)}:{json_text(value)},\n" for key, value in head.items())
        file.write(f"{{{members}" + '"traceEvents":[')

    def add(self, rows: pl.DataFrame, *pieces: Piece) -> None:
        """An event for each row."""
        if rows.is_empty():
            return
        binary = self._binary()
        for part in written(rows, pieces, is_first=not self.events):
            if binary is not None:
                binary.write(part)
            else:
                self._file.write(str(part, "utf-8"))
        self.events += len(rows)

    def add_all(self, events: Sequence[dict[str, object]]) -> None:
        if events:
            self._put([json_text(event, separators=(",", ":")) for event in events])

    def finish(self) -> None:
        self._file.write("\n]}\n")

    def _binary(self) -> BinaryIO | None:
        """The file of bytes below the file of text, which is flushed first; None: it has none, or another encoding."""
        binary: BinaryIO | None = getattr(self._file, "buffer", None)
        if binary is None or codecs.lookup(self._file.encoding).name != "utf-8":
            return None
        self._file.flush()
        return binary

    def _put(self, texts: list[str]) -> None:
        if texts:
            self._file.write((",\n" if self.events else "\n") + ",\n".join(texts))
            self.events += len(texts)


def quoted(text: str) -> str:
    """A text in JSON, of no more letters than a viewer can draw."""
    return json_text(text if len(text) <= LONGEST else text[:LONGEST] + "…")


class Choice:
    """A text for each row of a table, which has its number in a column: few different ones are used at a time."""

    def __init__(self, column: str, texts: Sequence[str], which: NDArray[np.integer]) -> None:
        is_used = np.zeros(len(texts), dtype=np.bool_)
        is_used[which] = True
        used = np.flatnonzero(is_used)
        place = np.cumsum(is_used) - 1
        self.numbers = pl.Series(column, place[which])
        self.piece = chosen(column, Texts.of([texts[row] for row in used.tolist()]))


class FactTexts:
    """The facts of slices, by their set, as members of a JSON object: `,"layer":"layers.0"`."""

    def __init__(self) -> None:
        self.texts = [""]

    def add(self, facts: pl.DataFrame) -> None:
        """New sets; their numbers follow the last one's."""
        for number_of, members in _sets(facts):
            self.texts += [""] * (number_of - len(self.texts))
            self.texts.append(members)

    def of(self, column: str, sets: NDArray[np.integer]) -> Choice:
        most = int(sets.max(initial=0))
        self.texts += [""] * (most + 1 - len(self.texts))  # the last sets may be empty
        return Choice(column, self.texts, sets)


def _sets(facts: pl.DataFrame) -> Iterator[tuple[int, str]]:
    current, members = 0, dict[str, list[str]]()
    for number_of, key, value, amount in facts.select("set", "key", "text", "number").iter_rows():
        if number_of != current:
            if current:
                yield current, _members(members)
            current, members = number_of, {}
        members.setdefault(key, []).append(quoted(value) if value is not None else str(amount or 0))
    if current:
        yield current, _members(members)


def _members(values: dict[str, list[str]]) -> str:
    return "".join(f",{quoted(key)}:{each[0] if len(each) == 1 else '[' + ','.join(each) + ']'}" for key, each in values.items())
