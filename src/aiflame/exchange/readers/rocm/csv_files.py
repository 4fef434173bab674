"""CSV files of rocprofv3: a file for each kind of event, all of a process with the same prefix (`1234_kernel_trace.csv` …)."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.rocm.gathered import Gathered
from aiflame.exchange.readers.rocm.pc_samples import SAMPLES
from aiflame.exchange.readers.source import Source

Progress = Callable[[float], None]

_MOST = 1 << 30
_MOST_BYTES = 1_700_000_000
_CELL_BYTES, _ROW_BYTES = 16, 250
"""The memory that a cell and a row take until the profile is written, measured and rounded up; the text lies in memory twice."""
_SUFFIX = re.compile(
    r"(?:(?P<prefix>.*)_)?"
    r"(?:(?:hip|hsa|marker|kernel|rccl|rocdecode|rocjpeg|scratch|(?<!scratch_)memory)(?:_[a-z]+)*_trace|agent_info|counter_collection"
    r"|pc_sampling_(?:host_trap|stochastic))"
    r"\.csv(?:\.gz|\.zst)?",
    re.DOTALL,
)
_API = ("Domain", "Function", "Start_Timestamp", "End_Timestamp")
_WORK = ("Kind", "Start_Timestamp", "End_Timestamp", "Correlation_Id")
_SAMPLES = ("Sample_Timestamp", "Dispatch_Id", "Instruction")
_MOST_FILES = 10_000


def is_one(head: bytes) -> bool:
    if b"_Timestamp" not in head[:4096]:
        return False
    names = _header(head)
    work = set(_WORK) <= names and bool({"Kernel_Name", "Direction"} & names)
    return work or set(_API) <= names or set(_SAMPLES) <= names


def is_folder(folder: Path) -> bool:
    """A folder with such a file of events."""
    for name in _names(folder):
        if _SUFFIX.fullmatch(name):
            try:
                if is_one(Source.open(folder / name).head):
                    return True
            except AiflameError:
                continue
    return False


def sisters(path: Path) -> tuple[Path, ...]:
    """The files of the same process in the same folder, itself among them."""
    own = _set_of(path.name)
    if own is None:
        return (path,)
    return tuple(path.parent / name for name in _names(path.parent) if _set_of(name) == own)


def read(source: Source, making: Making, progress: Progress) -> None:
    gathered = Gathered()
    others = [path for path in sisters(source.path) if path != source.path]
    _Process(gathered, making).read([source, *(Source.open(path) for path in others)], _Room())
    if others:
        making.note(f"read together with {', '.join(sorted(path.name for path in others))}")
    gathered.write(making)


def read_folder(folder: Path, making: Making, progress: Progress) -> None:
    """All processes of a run."""
    sets: dict[str, list[Path]] = {}
    for name in _names(folder):
        if (of := _set_of(name)) is not None:
            sets.setdefault(of, []).append(folder / name)
    gathered, room = Gathered(), _Room()
    for number, paths in enumerate(sets.values()):
        _Process(gathered, making, number).read([Source.open(path) for path in paths], room)
        progress(0.8 * (number + 1) / len(sets))
    gathered.write(making)


def _names(folder: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    except OSError as error:
        raise AiflameError(f"cannot read {folder}: {error.strerror or error}") from None
    return [name for name in names if ".csv" in name][:_MOST_FILES]


def _set_of(name: str) -> str | None:
    match = _SUFFIX.fullmatch(name)
    return (match["prefix"] or "") if match else None


def _header(head: bytes) -> set[str]:
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0][:4096].decode("utf-8", "replace")
    return {name.strip().strip('"') for name in line.split(",")}


class _Room:
    """Memory for the files of a run: a line of a few bytes has a cell in each column."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, source: Source, data: bytes) -> None:
        rows = data.count(b"\n") + data.count(b"\r")
        columns = data[: max(data.find(b"\n"), 0)].count(b",") + 1
        self._taken += 2 * len(data) + rows * (columns * _CELL_BYTES + _ROW_BYTES)
        if self._taken > _MOST_BYTES:
            raise AiflameError(
                f"{source.path} has {rows:,} lines, and to import all files takes more than 2 GB of memory: "
                "record a shorter time, or write rocpd (`--output-format rocpd`)"
            )


class _Process:
    """The files of one process."""

    def __init__(self, gathered: Gathered, making: Making, number: int = 0) -> None:
        self._gathered, self._making, self._number = gathered, making, number

    def read(self, sources: list[Source], room: _Room) -> None:
        tables = {source.name: _table(source, room) for source in sources}
        self._agents = dict(agent for rows in tables.values() if "Agent_Type" in rows.columns for agent in _agents(rows))
        pid = self._pid(tables)
        there = {name: rows for name, rows in tables.items() if {"Start_Timestamp", "End_Timestamp"} <= set(rows.columns)}
        for rows in tables.values():
            if set(_SAMPLES) <= set(rows.columns):
                self._add_samples(rows, pid)
        has_trace = any("Kernel_Name" in rows.columns and "Counter_Name" not in rows.columns for rows in there.values())
        for name, rows in there.items():
            columns = set(rows.columns)
            timed = rows.with_columns(
                pid=pl.lit(pid, dtype=pl.Int64),
                tid=_number(rows, "Thread_Id"),
                begin=_number(rows, "Start_Timestamp"),
                end=_number(rows, "End_Timestamp"),
                correlation=_number(rows, "Correlation_Id"),
            )
            if {"Domain", "Function"} <= columns:
                own = _number(rows, "Process_Id")
                self._gathered.calls.append(timed.with_columns(pid=pl.coalesce(own, "pid"), domain="Domain", name="Function"))
            elif "Counter_Name" in columns and has_trace:
                self._making.unused["values of counters"] += len(rows)
            elif "Kernel_Name" in columns:
                self._add_kernels(timed)
            elif "Direction" in columns:
                self._add_copies(timed)
            elif len(rows):
                self._making.unused[f"rows of {name}"] += len(rows)

    def _pid(self, tables: dict[str, pl.DataFrame]) -> int:
        """Files of kernels and copies do not say whose they are."""
        for rows in tables.values():
            if "Process_Id" in rows.columns:
                pids = rows.select(_number(rows, "Process_Id")).to_series().drop_nulls().unique()
                if len(pids) == 1:
                    return int(pids[0])
        prefixes = [of for name in tables if (of := _set_of(name)) and of.isdecimal() and len(of) < 10]
        return int(prefixes[0]) if prefixes else self._number

    def _add_kernels(self, rows: pl.DataFrame) -> None:
        if "Counter_Name" in rows.columns:
            self._making.unused["values of counters"] += len(rows)
            rows = rows.unique("Dispatch_Id", keep="first", maintain_order=True) if "Dispatch_Id" in rows.columns else rows
        sizes = {
            f"{own}_{axis}": _number(rows, f"{of}_{axis.upper()}")
            for own, of in (("items", "Grid_Size"), ("block", "Workgroup_Size"))
            for axis in "xyz"
        }
        if "Grid_Size" in rows.columns:
            sizes |= {"items_x": _number(rows, "Grid_Size"), "block_x": _number(rows, "Workgroup_Size")}
        self._gathered.kernels.append(
            rows.with_columns(
                name="Kernel_Name",
                dispatch=_number(rows, "Dispatch_Id"),
                agent=self._agent(rows, "Agent_Id"),
                stream=pl.coalesce(_number(rows, "Queue_Id"), _number(rows, "Stream_Id")),
                registers=_number(rows, "VGPR_Count"),
                static_shared=pl.coalesce(_number(rows, "LDS_Block_Size"), _number(rows, "Group_Segment_Size")),
                local_bytes=pl.coalesce(_number(rows, "Scratch_Size"), _number(rows, "Private_Segment_Size")),
                **sizes,
            )
        )

    def _add_samples(self, rows: pl.DataFrame, pid: int) -> None:
        rows = rows.with_columns(
            pid=pl.lit(pid, dtype=pl.Int64),
            dispatch=_number(rows, "Dispatch_Id"),
            correlation=_number(rows, "Correlation_Id"),
            instruction="Instruction",
            comment="Instruction_Comment" if "Instruction_Comment" in rows.columns else pl.lit(""),
            issued=_number(rows, "Wave_Issued_Instruction"),
            reason="Stall_Reason" if "Stall_Reason" in rows.columns else pl.lit(""),
        )
        self._gathered.samples.append(rows.select(name for name in SAMPLES if name in rows.columns))

    def _add_copies(self, rows: pl.DataFrame) -> None:
        source, target = self._agent(rows, "Source_Agent_Id"), self._agent(rows, "Destination_Agent_Id")
        to_host = pl.col("Direction").str.contains("DEVICE_TO_HOST")
        rows = rows.with_columns(
            agent=pl.when(to_host).then(source).otherwise(target), direction="Direction", stream=_number(rows, "Stream_Id")
        )
        self._gathered.copies.append(rows)
        self._making.note("rocprofv3's CSV files do not say how many bytes were copied: its JSON and rocpd files do")

    def _agent(self, rows: pl.DataFrame, column: str) -> pl.Expr:
        """`Agent 4`, in older versions 4."""
        if column not in rows.columns:
            return pl.lit(None, dtype=pl.String)
        text = pl.col(column).fill_null("")
        plain = pl.when(text.str.contains(r"^\d+$")).then("Agent " + text).otherwise(text)
        self._gathered.agents.update(self._agents)
        return plain


def _agents(rows: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """The device's name by each way in which rocprofv3 may number it (--agent-index)."""
    of_type: dict[str, int] = {}
    for row in rows.iter_rows(named=True):
        name = row.get("Product_Name") or row.get("Name") or ""
        kind = row.get("Agent_Type") or "GPU"
        yield f"{kind} {of_type.get(kind, 0)}", name
        of_type[kind] = of_type.get(kind, 0) + 1
        yield f"Agent {row.get('Logical_Node_Id') or row.get('Node_Id')}", name


def _number(rows: pl.DataFrame, column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Int64, strict=False) if column in rows.columns else pl.lit(None, dtype=pl.Int64)


def _table(source: Source, room: _Room) -> pl.DataFrame:
    """All columns as text."""
    data = source.whole(_MOST)
    room.take(source, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lines that are no rows
            return pl.read_csv(data, infer_schema=False, truncate_ragged_lines=True, ignore_errors=True, encoding="utf8-lossy")
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise AiflameError(f"cannot read {source.path} as CSV: {str(error).splitlines()[0]}") from None
    except pl.exceptions.PanicException:
        raise AiflameError(f"cannot read {source.path} as CSV: it is damaged") from None
