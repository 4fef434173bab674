"""Events of Chrome's JSON as text, for millions at once: each is a column of pieces of text that are joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.json_text import json_text

ROWS = 1 << 16
"""Events that are written at a time."""
LONGEST = 4096
"""Letters of a name or of a fact: viewers measure and draw each of them."""


class EventFile:
    """The list `traceEvents` of a file that is written as its events come."""

    def __init__(self, file: TextIO, head: dict[str, object]) -> None:
        self.events = 0
        self._file = file
        members = "".join(f"{quoted(key)}:{json_text(value)},\n" for key, value in head.items())
        file.write(f"{{{members}" + '"traceEvents":[')

    def add(self, rows: pl.DataFrame, *pieces: pl.Expr) -> None:
        """An event for each row."""
        for begin in range(0, len(rows), ROWS):
            texts = rows[begin : begin + ROWS].select(pl.concat_str(pieces)).to_series().to_list()
            self._put(texts)

    def add_all(self, events: Sequence[dict[str, object]]) -> None:
        if events:
            self._put([json_text(event, separators=(",", ":")) for event in events])

    def finish(self) -> None:
        self._file.write("\n]}\n")

    def _put(self, texts: list[str]) -> None:
        if texts:
            self._file.write((",\n" if self.events else "\n") + ",\n".join(texts))
            self.events += len(texts)


def quoted(text: str) -> str:
    """A text in JSON, of no more letters than a viewer can draw."""
    return json_text(text if len(text) <= LONGEST else text[:LONGEST] + "…")


def microseconds(column: str | pl.Expr) -> pl.Expr:
    """Nanoseconds as a decimal number of microseconds: no digit is lost."""
    value = pl.col(column) if isinstance(column, str) else column
    size = value.abs()
    sign = pl.when(value < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    return pl.concat_str(sign, (size // 1000).cast(pl.String), pl.lit("."), (size % 1000).cast(pl.String).str.zfill(3))


def text(piece: str) -> pl.Expr:
    return pl.lit(piece)


def number(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String)


def chosen(texts: Sequence[str], which: NDArray[np.integer]) -> pl.Series:
    """The text of each row: few different ones are used at a time."""
    used, place = np.unique(which, return_inverse=True)
    return pl.Series([texts[row] for row in used.tolist()], dtype=pl.String).gather(place)


class FactTexts:
    """The facts of slices, by their set, as members of a JSON object: `,"layer":"layers.0"`."""

    def __init__(self) -> None:
        self.texts = [""]

    def add(self, facts: pl.DataFrame) -> None:
        """New sets; their numbers follow the last one's."""
        for number_of, members in _sets(facts):
            self.texts += [""] * (number_of - len(self.texts))
            self.texts.append(members)

    def of(self, sets: NDArray[np.integer]) -> pl.Series:
        most = int(sets.max(initial=0))
        self.texts += [""] * (most + 1 - len(self.texts))  # the last sets may be empty
        return chosen(self.texts, sets)


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
