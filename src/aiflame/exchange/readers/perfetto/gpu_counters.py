"""Counters of GPUs (GpuCounterEvent): their descriptors and values, as measurements of the machine.

A descriptor is in the packet itself, for all packets, or interned, for those of its sequence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.devices.trace import MEASURED, shaped
from aiflame.exchange.readers.perfetto.contents import GPU_COUNTERS, Contents
from aiflame.exchange.readers.perfetto.events import NONE
from aiflame.exchange.readers.perfetto.interned import GPU_COUNTERS as INTERNED_DESCRIPTORS
from aiflame.exchange.readers.perfetto.many_messages import Batch, Fields, split, split_all
from aiflame.exchange.readers.perfetto.meaning import Meaning
from aiflame.exchange.readers.protobuf import DamagedError, Value, fields, message, numbers, text, unsigned
from aiflame.values import dataclass, replace

_DESCRIPTOR, _VALUES, _GPU, _IID = 1, 2, 3, 4
_ID, _INT, _DOUBLE = 1, 2, 3
_NUMERATORS, _DENOMINATORS, _DIRECTION, _FORWARDS = 7, 8, 11, 2
_UNITS = {
    **dict(enumerate(("bit", "kbit", "Mbit", "Gbit", "Tbit", "Pbit", "bytes", "KB", "MB", "GB", "TB", "PB"), 1)),
    **dict(enumerate(("Hz", "kHz", "MHz", "GHz", "THz", "PHz", "ns", "µs", "ms", "s", "min", "h"), 13)),
    **dict(enumerate(("vertices", "pixels", "triangles", "mW", "W", "kW", "J", "V", "A", "°C", "°F", "K", "%"), 25)),
    **dict(enumerate(("primitives", "fragments", "instructions"), 38)),
}
"""By Perfetto's numbers of them; 0 is none."""
_LONGEST_NAME = 200
"""A group's name stands before each of its counters."""
_OF_ALL = -1
"""The place of descriptors that are not interned."""

Key = tuple[int, int, int, int]
"""The scope of an interned descriptor and its number (_OF_ALL and 0: not interned), the GPU, and the counter's number."""


@dataclass(frozen=True, slots=True)
class _Counter:
    gpu: int
    name: str
    unit: str
    forwards: bool
    """A value holds from its moment on; else it is that of the time before."""


def add(meaning: Meaning) -> None:
    kept = meaning.contents.kept[GPU_COUNTERS]
    if not kept:
        return
    batch, parsed = split_all([one.message for one in kept])
    meaning.contents.damaged += parsed.damaged
    gpu = parsed.last(_GPU, len(kept))
    iid = parsed.last(_IID, len(kept))
    interned = parsed.has(_IID, len(kept))
    scope = np.where(interned, np.array([one.scope for one in kept], dtype=np.int64), _OF_ALL)
    counters = dict(_interned(meaning.contents))
    counters.update(_inline(meaning.contents, batch, parsed, gpu))
    which, counter, value = _values(meaning.contents, batch, parsed)
    time = meaning.contents.time_of(np.array([one.packet for one in kept], dtype=np.int64))
    columns = {"scope": scope[which], "iid": np.where(interned, iid, 0)[which], "gpu": gpu[which], "counter": counter, "time": time[which]}
    _add_values(meaning, pl.DataFrame({**columns, "value": value}), counters)


def _add_values(meaning: Meaning, rows: pl.DataFrame, counters: dict[Key, _Counter]) -> None:
    used = rows.select("scope", "iid", "gpu", "counter").unique(maintain_order=True)
    series: dict[_Counter, int] = {}
    of = []
    for scope, iid, gpu, number in used.iter_rows():
        # A counter's number is that of all GPUs, unless each GPU has a descriptor of its own.
        counter = counters.get((scope, iid, gpu, number)) or counters.get((scope, iid, _OF_ALL, number))
        if counter is not None and scope == _OF_ALL:
            counter = replace(counter, gpu=gpu)
        of.append(series.setdefault(counter, len(series)) if counter is not None else None)
    rows = rows.join(used.with_columns(pl.Series("series", of, dtype=pl.Int64)), on=used.columns, how="left", maintain_order="left")
    nameless = rows["series"].null_count()
    rows = rows.filter(pl.col("series").is_not_null() & pl.col("value").is_finite() & (pl.col("time") != NONE))
    forwards = [number for counter, number in series.items() if counter.forwards]
    begins = pl.when(pl.col("series").is_in(forwards)).then("time").otherwise(pl.col("time").shift(1).over("series"))
    rows = rows.sort("series", "time", maintain_order=True).with_columns(time=begins)
    unused = {
        "values of GPU counters without a descriptor": nameless,
        "first values of GPU counters, of a time whose begin is not in the trace": rows["time"].null_count(),
    }
    meaning.making.unused.update({what: count for what, count in unused.items() if count})
    meaning.trace.series = [(f"GPU {counter.gpu}", counter.name, counter.unit) for counter in series]
    meaning.trace.measured = shaped(rows.drop_nulls("time"), MEASURED)


def _values(contents: Contents, batch: Batch, parsed: Fields) -> tuple[Whole, Whole, NDArray[np.float64]]:
    """For each value: which packet it is in, the counter's number, and the value."""
    rows = parsed.rows(_VALUES, bytes=True)
    count = len(rows)
    inner = split(batch, parsed.value[rows].astype(np.int64), parsed.end[rows])
    contents.damaged += inner.damaged
    whole, precise = inner.last(_INT, count), inner.last(_DOUBLE, count).view(np.float64)
    value = np.where(inner.has(_DOUBLE, count), precise, np.where(inner.has(_INT, count), whole.astype(np.float64), np.nan))
    return parsed.message[rows], inner.last(_ID, count), value


def _inline(contents: Contents, batch: Batch, parsed: Fields, gpu: Whole) -> Iterator[tuple[Key, _Counter]]:
    rows = parsed.rows(_DESCRIPTOR, bytes=True)
    for at, first, until in zip(parsed.message[rows].tolist(), parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True):
        for number, counter in _described(contents, batch.bytes[first:until], int(gpu[at])):
            yield (_OF_ALL, 0, _OF_ALL, number), counter
            yield (_OF_ALL, 0, counter.gpu, number), counter


def _interned(contents: Contents) -> Iterator[tuple[Key, _Counter]]:
    for (scope, iid), data in contents.interned.whole(INTERNED_DESCRIPTORS).items():
        try:
            given = dict(fields(data))
            gpu = unsigned(given.get(3, 0)) & 0xFFFFFFFF
            described = list(_described(contents, message(given.get(2, memoryview(b""))), gpu))
        except DamagedError:
            contents.damaged += 1
            continue
        for number, counter in described:
            yield (scope, iid, _OF_ALL, number), counter


def _described(contents: Contents, data: bytes | memoryview, gpu: int) -> Iterator[tuple[int, _Counter]]:
    """The counters of a descriptor, by their numbers. A group with a name of the producer's own stands before the counter's."""
    groups: dict[int, str] = {}
    specifications: list[list[tuple[int, Value]]] = []
    try:
        for number, value in fields(data):
            if number == 1:
                specifications.append(list(fields(message(value))))
            elif number == 6:
                group = list(fields(message(value)))
                name = next((text(of) for field, of in group if field == 2), "")[:_LONGEST_NAME]
                groups.update({one: name for field, of in group if field == 4 for one in numbers(of)})
        for given in specifications:
            one = dict(given)
            number = unsigned(one.get(_ID, 0))
            name = text(one[2])[:_LONGEST_NAME] if 2 in one else f"counter {number}"
            if groups.get(number):
                name = f"{groups[number]} / {name}"
            yield number, _Counter(gpu, name, _unit(given), one.get(_DIRECTION) == _FORWARDS)
    except DamagedError:
        contents.damaged += 1


def _unit(given: list[tuple[int, Value]]) -> str:
    above, below = (
        "·".join(_UNITS.get(unit, "") for field, value in given if field == wanted for unit in numbers(value) if unit in _UNITS)
        for wanted in (_NUMERATORS, _DENOMINATORS)
    )
    return f"{above}/{below}" if below else above
