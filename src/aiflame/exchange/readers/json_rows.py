"""The events of a JSON document as columns, read from blocks of bytes at the speed of a disk.

    rows = JsonRows([Key("ts", Kind.DECIMAL, digits=3), Key("name", Kind.TEXT), Key("args.External id", Kind.INT)])
    for block in blocks:                   # bytes, cut anywhere; 8 to 32 MB are best
        batch = rows.feed(block)           # the events that this block completes
        batch["ts"]                        # int64; NONE where it is missing
        batch["name"]                      # uint32: numbers of texts; 0 where it is missing
    batch = rows.finish()                  # the last rows of a cut document
    rows.texts()[...]; rows.summary()

The document is `{…, "traceEvents": [{…}, …], …}` or `[{…}, …`, whose end may be missing.
Where it is damaged, reading goes on at the next event.
`nesting.py` finds out which spans enclose others.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.errors import AiflameError
from aiflame.values import dataclass

from .trace_reader import ArrowArray, ArrowCapsules, ArrowSchema, Span, Summary, Wanted, library, span_of

Column = NDArray[np.int64] | NDArray[np.uint32]
NONE = int(np.iinfo(np.int64).min)
"""A number that is missing or does not fit."""
MOST_TEXT_BYTES = 512 << 20
MOST_DIGITS = 18
"""Of a DECIMAL."""
_OUT_OF_MEMORY, _LONG_EVENT = 1, 2


class Kind(IntEnum):
    """The conversion of a value. Values that do not fit are counted, and null as those that are missing; JSON's null is missing."""

    INT = 0
    """int64; also from a text that is a number, or from a number with nothing but zeros behind the point."""
    DECIMAL = 1
    """int64: the value times 10**digits, rounded half to even; never through a double."""
    TEXT = 2
    """The number of a text: that of a string, a number as it stands, `true` or `false`."""
    RAW = 3
    """The number of a text: the JSON value as it stands, strings with their quotes."""


@dataclass(frozen=True)
class Key:
    """A key of an event, or (behind the first point) of the object that the event has under it."""

    path: str
    kind: Kind
    digits: int = 0
    name: str = ""
    """Of the column; empty: the path."""


@dataclass(frozen=True)
class Batch:
    rows: int
    columns: dict[str, Column]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


@dataclass(frozen=True)
class Read:
    """Everything that a document has beside its rows, as far as it has been read."""

    found_array: bool
    damaged_places: int
    damaged_bytes: int
    cut: bool
    """The document ended before its end."""
    refused_texts: int
    """Values that became `[too many texts]`."""
    unfit: dict[str, int]
    """Column → values that could not be converted."""
    unused: dict[str, int]
    """Path of a key that was not asked for (two levels) → events that have it."""
    members: dict[str, str]
    """Other members of the document as they stand, up to 16 MB in all."""
    large_members: tuple[str, ...]
    """Those that had no room there."""


class JsonRows:
    """`source` is how the document is called in errors. One thread at a time may use an object; others run while it reads."""

    def __init__(
        self, keys: Sequence[Key], array: str = "traceEvents", most_text_bytes: int = MOST_TEXT_BYTES, source: str = "the trace"
    ) -> None:
        self._keys = {key.name or key.path: key for key in keys}
        if len(self._keys) != len(keys) or any(not 0 <= key.digits <= MOST_DIGITS for key in keys):
            raise ValueError(keys)
        self._source = source
        self._library = library()
        name = np.frombuffer(array.encode(), np.uint8)
        seed = int.from_bytes(os.urandom(8), "little")
        wanted = (Wanted * len(keys))(*map(_wanted, keys))
        self._document = self._library.aiflame_rows_open(span_of(name), wanted, len(keys), most_text_bytes, seed)
        if not self._document:
            raise self._no_memory()
        self.close = weakref.finalize(self, self._library.aiflame_rows_close, self._document)
        """Frees the memory; so does losing the last reference."""

    def feed(self, block: bytes | bytearray | memoryview) -> Batch:
        """The rows that this block completes."""
        view = memoryview(block)
        span = span_of(np.frombuffer(view, np.uint8)) if view.nbytes else Span(None, 0)
        return self._batch(self._library.aiflame_rows_feed(self._open(), span))

    def finish(self) -> Batch:
        """To be called behind the last block: the rows that a cut or damaged end still has."""
        return self._batch(self._library.aiflame_rows_finish(self._open()))

    def text(self, number: int) -> str | None:
        """None of 0."""
        text = Span()
        if not number:
            return None
        if not self._library.aiflame_rows_text(self._open(), number, text):
            raise IndexError(number)
        return text.bytes().decode()

    def texts(self) -> pl.Series:
        """Row n is the text with number n; row 0 is null. All at once, for `texts().gather(batch["name"])`."""
        schema, array = ArrowSchema(), ArrowArray()
        if not self._library.aiflame_rows_texts(self._open(), schema, array):
            raise self._no_memory()
        return pl.Series("text", ArrowCapsules(schema, array))

    def summary(self) -> Read:
        facts = self._facts()
        members = {}
        large = []
        name, value = Span(), Span()
        for at in range(facts.members):
            if self._library.aiflame_rows_member(self._document, at, name, value):
                members[_text(name)] = _text(value)
            else:
                large.append(_text(name))
        unfit = {name: self._library.aiflame_rows_unfit(self._document, at) for at, name in enumerate(self._keys)}
        return Read(
            found_array=bool(facts.found_array),
            damaged_places=facts.damaged_places,
            damaged_bytes=facts.damaged_bytes,
            cut=bool(facts.cut),
            refused_texts=facts.refused_texts,
            unfit={name: count for name, count in unfit.items() if count},
            unused=self._unused(facts.keys),
            members=members,
            large_members=tuple(large),
        )

    def _unused(self, count: int) -> dict[str, int]:
        names = [""]
        unused: dict[str, int] = {}
        name, parent = Span(), ctypes.c_uint32()
        for key in range(1, count):
            events = self._library.aiflame_rows_key(self._document, key, name, parent)
            names.append(f"{names[parent.value]}.{_text(name)}" if parent.value else _text(name))
            if events:
                unused[names[key]] = unused.get(names[key], 0) + events
        return unused

    def _batch(self, failure: int) -> Batch:
        facts = self._facts()
        if failure == _OUT_OF_MEMORY:
            raise self._no_memory()
        if failure == _LONG_EVENT:
            raise AiflameError(
                f"{self._source} has an event that is longer than 64 MB, at byte {facts.place:,}: "
                "check whether the file is whole, or write it again with fewer arguments for each event"
            )
        return Batch(facts.rows, {name: self._column(at, key, facts.rows) for at, (name, key) in enumerate(self._keys.items())})

    def _column(self, at: int, key: Key, rows: int) -> Column:
        """A copy: the memory is used for the next block."""
        column: Column = np.empty(rows, np.int64) if key.kind in (Kind.INT, Kind.DECIMAL) else np.empty(rows, np.uint32)
        if rows:
            ctypes.memmove(column.ctypes.data, self._library.aiflame_rows_column(self._document, at), column.nbytes)
        return column

    def _facts(self) -> Summary:
        facts = Summary()
        self._library.aiflame_rows_summary(self._open(), facts)
        return facts

    def _open(self) -> int:
        if not self.close.alive:
            raise ValueError("the document is closed")
        return int(self._document)

    def _no_memory(self) -> AiflameError:
        return AiflameError(f"the memory is too small to read {self._source}: free some, or read it on a larger machine")


def _wanted(key: Key) -> Wanted:
    first, point, second = (part.encode() for part in key.path.partition("."))
    return Wanted(first, len(first), second if point else None, len(second), key.kind, key.digits)


def _text(span: Span) -> str:
    return span.bytes().decode("utf-8", "replace")
