"""Seals the recorder's measurements of the machine: the tables `telemetry_series` and `telemetry`.

Both belong to a host, not to a process. The time of a rate is the begin of its interval: in all series a value holds until the next.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import FOLDER, HEAD, SUFFIX, Header, Packer, Series, is_whole, read_header
from aiflame.profile.tables.index import Index, Part, write_part
from aiflame.values import dataclass, field

SERIES = "telemetry_series"
VALUES = "telemetry"
SERIES_COLUMNS = {
    "series": pl.UInt32(),
    "source": pl.String(),
    "device": pl.String(),
    "name": pl.String(),
    "unit": pl.String(),
    "identity": pl.String(),
}
VALUE_COLUMNS = {"series": pl.UInt32(), "time_ns": pl.UInt64(), "value": pl.Float64()}

_LARGEST = 4 << 30
"""Of a file, in bytes: years of readings of a whole machine."""

Floats = NDArray[np.float64]
Times = NDArray[np.uint64]


@dataclass(slots=True)
class Telemetry:
    series: pl.DataFrame
    """SERIES_COLUMNS; a series without values exists, but could not be read"""
    values: pl.DataFrame
    """VALUE_COLUMNS, by series and time"""
    notes: list[str] = field(default_factory=list)


def add_telemetry(profile: Folder, tables: Folder, index: Index) -> tuple[Index, list[str]]:
    """Writes the tables of a profile that is being sealed; returns the index with them, and notes on files that cannot be read."""
    measured = read(profile.folder(FOLDER))
    parts: dict[str, tuple[Part, ...]] = {}
    for name, frame in ((SERIES, measured.series), (VALUES, measured.values)):
        if len(measured.series):
            parts[name] = (write_part(tables, name, "00000", frame),)
    return Index({**index.tables, **parts}), measured.notes


def read(folder: Folder) -> Telemetry:
    """Reads all files of a folder, in the order of their names. A damaged file loses its damaged records, with a note."""
    rows: dict[tuple[str, ...], int] = {}
    values, notes = [pl.DataFrame(schema=VALUE_COLUMNS)], []
    # A recorder that was killed may have created a file without writing to it.
    for name in [entry.name for entry in folder.entries() if entry.name.endswith(SUFFIX) and entry.size]:
        try:
            header, records, lost = _records(folder, name)
        except (ValueError, AiflameError) as error:
            notes.append(f"telemetry of {name.removesuffix(SUFFIX)} cannot be read: {error}")
            continue
        if lost:
            notes.append(f"telemetry of {header.source}: {lost} damaged records were left out")
        for one, time_ns, value in _series(header, records):
            row = rows.setdefault((header.source, one.device, one.name, one.unit, one.identity), len(rows))
            time, of = _readable(one, time_ns, value)
            values.append(pl.DataFrame({"series": np.full(len(time), row, np.uint32), "time_ns": time, "value": of}, schema=VALUE_COLUMNS))
        for one in header.unreadable:
            rows.setdefault((header.source, one.device, one.name, one.unit, one.identity), len(rows))
    named = [(row, *key) for key, row in rows.items()]
    series = pl.DataFrame(named, schema=SERIES_COLUMNS, orient="row")
    return Telemetry(series, pl.concat(values).sort("series", "time_ns", maintain_order=True), notes)


@dataclass(frozen=True, slots=True)
class _Records:
    time_ns: Times
    key: NDArray[np.uint32]
    values: Floats
    """a row for each record, a column for each series"""


def _records(folder: Folder, name: str) -> tuple[Header, _Records, int]:
    """The intact records of a file, by time, and the number of damaged ones."""
    data = _mapped(folder, name)
    header, begin = read_header(data)
    size = Packer(len(header.series)).size
    whole = (len(data) - begin) // size
    view = memoryview(data)[begin : begin + whole * size]
    kind = np.dtype([("time_ns", "<u8"), ("key", "<u4"), ("check", "<u4"), ("values", "<f8", (len(header.series),))])
    assert kind.itemsize == HEAD.size + struct.calcsize(f"<{len(header.series)}d") == size
    rows = np.frombuffer(view, kind)
    written = np.flatnonzero((rows["check"] != 0) | (rows["time_ns"] != 0)).tolist()  # a file with holes has zeros there
    sound = [at for at in written if is_whole(bytes(view[at * size : at * size + size]))]
    rows = rows[sound]
    rows = rows[np.argsort(rows["time_ns"], kind="stable")]
    # A record that is cut off at the end was being written when the recorder was killed; it is not damage.
    return header, _Records(rows["time_ns"], rows["key"], rows["values"].reshape(len(rows), len(header.series))), whole - len(sound)


def _mapped(folder: Folder, name: str) -> mmap.mmap | bytes:
    with folder.file(name) as file:
        size = file.seek(0, 2) if file is not None else 0
        if size > _LARGEST:
            raise AiflameError(f"{folder.path / name} is larger than {_LARGEST >> 20} MB: aiflame writes no such file")
        return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) if file is not None and size else b""


def _series(header: Header, records: _Records) -> Iterator[tuple[Series, Times, Floats]]:
    """Each series with its readings."""
    keys = np.unique(records.key).tolist() if header.keyed else [0]
    for key in keys:
        mine = records.key == key if header.keyed else np.ones(len(records.key), dtype=np.bool_)
        for place, one in enumerate(header.series):
            value = records.values[mine, place]
            there = np.isfinite(value)
            device = one.device.replace("{}", str(key)) if header.keyed else one.device
            yield (
                Series(device, one.name, one.unit, one.scale, one.rate, one.wraps, one.most, one.identity),
                records.time_ns[mine][there],
                value[there],
            )


def _readable(series: Series, time_ns: Times, value: Floats) -> tuple[Times, Floats]:
    """Converts values to the series' unit: scales them, continues counters that wrapped, and turns growth into a rate per second."""
    if series.wraps > 0 and len(value):
        fell = np.concatenate([[0], np.cumsum(np.diff(value) < 0)])
        value = value + fell * series.wraps
    if not series.rate:
        return time_ns, value * series.scale
    took, grown = np.diff(time_ns).astype(np.float64), np.diff(value)
    sane = (took > 0) & (grown >= 0)  # a device that was reset counts from 0
    rate = grown[sane] * series.scale * 1e9 / took[sane]
    return time_ns[:-1][sane], np.minimum(rate, series.most) if series.most else rate
