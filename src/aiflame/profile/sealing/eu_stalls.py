"""Seals the EU stall samples that the recorder read from Intel GPUs: adds them to the tables of the processes whose code was sampled."""

from __future__ import annotations

import mmap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import ROW, SUFFIX, UNKNOWN_FOLDER, UNKNOWN_SUFFIX, Block, Header, blocks, read_header
from aiflame.profile.folder.meta import Kept
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.kinds import UNKNOWN_CODE
from aiflame.profile.sealing.eu_stall_join import Code, Placed, Share
from aiflame.profile.sealing.executions import Executions
from aiflame.profile.sealing.placed_code import Function, placed_functions
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.values import dataclass, field

_WRITTEN = ("gpu_windows", "gpu_functions", "stall_reasons", "gpu_samples")
_READ = ("process_ends", "code_loads", "code_unloads", "gpu_devices", "kernel_shapes", "kernels")
_ROW = np.dtype([("address", "<u8"), ("reason", "<u4"), ("count", "<u4")])
assert _ROW.itemsize == ROW.size
_FOREVER = (1 << 62) - 1
_LARGEST, _LARGEST_UNKNOWN = 64 << 30, 16 << 20
_MOST_LOADS, _MOST_FUNCTIONS = 1 << 14, 1 << 20
"""Of a process, and of all processes of a GPU."""


class EuStalls:
    """Gathers the tables of processes that the samples need, then yields rows for them."""

    def __init__(self, profile: Folder, window: Kept | None = None) -> None:
        """`window`: blocks outside of it are left out."""
        self._profile, self._window = profile, window
        self._files = [entry.name for entry in profile.folder(FOLDER).entries() if entry.name.endswith(SUFFIX) and entry.size]
        self._frames: dict[int, dict[str, list[pl.DataFrame]]] = defaultdict(_no_frames)
        self._last: dict[int, Counter[str]] = defaultdict(Counter)
        """The highest id of each of _WRITTEN that a process has."""
        self._functions: dict[int, list[Function]] = {}
        """By checksum of the code."""
        self._starts: list[tuple[int, int, int]] = []
        """pid, start_ns and number of each process."""
        self._divided, self._left_out = Counter[str](), Counter[str]()
        """Samples by PCI address."""
        self.notes: list[str] = []

    def begin(self, process: int, pid: int, start_ns: int) -> None:
        """A process whose rows follow. One that becomes another program is a process of the same pid."""
        self._starts.append((pid, start_ns, process))

    def add(self, process: int, table: str, rows: pl.DataFrame) -> None:
        """Rows of a process that have been written."""
        if self._files and len(rows) and table in _WRITTEN:
            self._last[process][table] = max(self._last[process][table], int(rows["id"][-1]))
        elif self._files and len(rows) and table in _READ:
            self._frames[process][table].append(rows)

    def rows(self) -> Iterator[tuple[str, int, pl.DataFrame]]:
        """Table, process, and further rows of the table."""
        if not self._files:
            return
        tables = {process: {name: pl.concat(parts) for name, parts in frames.items()} for process, frames in self._frames.items()}
        executions = Executions({process: (of["kernel_shapes"], of["kernels"]) for process, of in tables.items()})

        def ran_ns(one: Placed, begin_ns: int, end_ns: int) -> int:
            return executions.ran_ns((one.process, one.device, one.name), begin_ns, end_ns)

        written = _Written(self._last)
        codes: dict[Header, Code] = {}
        for name in self._files:
            try:
                data = _mapped(self._profile.folder(FOLDER), name)
                header, begin = read_header(data)
            except (ValueError, AiflameError) as error:
                self.notes.append(f"stall samples of {name.removesuffix(SUFFIX)} cannot be read: {error}")
                continue
            if header not in codes:
                codes[header] = Code(self._placed(tables, header.address), header.address_bits, ran_ns)
            self._join(header, blocks(memoryview(data)[begin:]), codes[header], written)
        self._note_counts()
        yield from written.frames()

    def keep_unknown(self, place: Folder) -> None:
        """Copies records of a generation that is not known into the sealed profile."""
        for entry in self._profile.folder(FOLDER).entries():
            if entry.name.endswith(UNKNOWN_SUFFIX):
                content = self._profile.folder(FOLDER).read(entry.name, limit=_LARGEST_UNKNOWN)
                place.make_folder(UNKNOWN_FOLDER).put(entry.name, content or b"")
                self.notes.append(
                    f"the first stall samples of an Intel GPU of an unknown generation are kept in {UNKNOWN_FOLDER}/{entry.name}"
                )

    def _placed(self, tables: Mapping[int, Mapping[str, pl.DataFrame]], address: str) -> list[Placed]:
        """The functions of the code that was loaded to a GPU, by its PCI address."""
        placed, ended = list[Placed](), self._ended(tables)
        for process, of in tables.items():
            gpus: dict[str, set[str]] = defaultdict(set)  # OpenCL gives two GPUs of a kind one name
            for device, where in of["gpu_devices"].select("device", "address").iter_rows():
                gpus[device].add(where.lower())
            if len(of["code_loads"]) > _MOST_LOADS:
                self.notes.append(f"a process has loaded device code more than {_MOST_LOADS:,} times: samples in later code are not found")
            for crc, device, begin_ns, end_ns in with_ends(of["code_loads"].head(_MOST_LOADS), of["code_unloads"]).iter_rows():
                if address in gpus.get(device, {address}) and len(placed) < _MOST_FUNCTIONS:
                    of_code = self._of_code(crc)
                    end_ns = min(end_ns, ended.get(process, _FOREVER))
                    placed += [Placed(process, device, crc, one.name, one.address, one.size, begin_ns, end_ns) for one in of_code]
        return placed

    def _ended(self, tables: Mapping[int, Mapping[str, pl.DataFrame]]) -> dict[int, int]:
        """When processes ended, as far as that is known: their code went with them."""
        following = pairwise(sorted(self._starts))
        ends = {process: next_ns for (pid, _, process), (next_pid, next_ns, _) in following if pid == next_pid}
        for process, of in tables.items():
            for end_ns in of["process_ends"]["end_ns"].to_list():
                ends[process] = min(ends.get(process, _FOREVER), end_ns)
        return ends

    def _of_code(self, crc: int) -> list[Function]:
        if crc not in self._functions:
            self._functions[crc] = placed_functions(self._profile, crc)
        return self._functions[crc]

    def _join(self, header: Header, stretches: Iterator[Block | None], code: Code, written: _Written) -> None:
        for block in stretches:
            if block is None:
                self.notes.append(f"stall samples of the Intel GPU {header.address}: the rest of a damaged file was left out")
                break
            if self._window is not None and not (block.end_ns >= self._window.begin_ns and block.begin_ns <= self._window.end_ns):
                continue
            rows = np.frombuffer(block.rows, _ROW)
            rows = rows[rows["reason"] < len(header.reasons)]
            shares = list(code.shares(rows, block.begin_ns, block.end_ns))
            self._divided[header.address] += sum(int(one.count.sum()) for one in shares if one.divided)
            if code.empty:
                self._left_out[header.address] += int(rows["count"].sum())
            else:
                written.add(header, block, shares, code.nearest(block.begin_ns))

    def _note_counts(self) -> None:
        for address, samples in sorted(self._divided.items()):
            if samples:
                self.notes.append(
                    f"{samples:,} stall samples of the Intel GPU {address} are at addresses where several processes had code: they were"
                    " divided by the time that their kernels ran"
                )
        for address, samples in sorted(self._left_out.items()):
            if samples:
                self.notes.append(
                    f"{samples:,} stall samples of the Intel GPU {address} were left out: the recording has no code that ran on it"
                )


def with_ends(loads: pl.DataFrame, unloads: pl.DataFrame) -> pl.DataFrame:
    """crc, device, begin_ns, end_ns: code ends when the program removes it, or when other code is loaded to one of its addresses."""
    ends = unloads.group_by("load").agg(end_ns=pl.col("time_ns").min())
    rows = loads.join(ends, left_on="id", right_on="load", how="left").sort("time_ns", "id")
    begin, first = rows["time_ns"].to_numpy(), rows["address"].to_numpy()
    last = first + np.maximum(rows["bytes"].to_numpy(), np.uint64(1))
    device = rows["device"].rank("dense").to_numpy()
    removed = rows["end_ns"].fill_null(_FOREVER).to_numpy()
    replaced = []
    for row in range(len(rows)):
        later = slice(row + 1, None)
        over = (first[later] < last[row]) & (last[later] > first[row]) & (device[later] == device[row])
        replaced.append(int(begin[later][over.argmax()]) if over.any() else _FOREVER)
    ended = np.minimum(removed, np.array(replaced, np.uint64))
    return rows.select("crc", "device", begin_ns="time_ns", end_ns=pl.Series(ended, dtype=pl.UInt64))


@dataclass(slots=True)
class _Rows:
    """Rows to add to the tables of one process."""

    last: Counter[str]
    windows: list[dict[str, object]] = field(default_factory=list)
    functions: dict[tuple[int, str], int] = field(default_factory=dict)
    reasons: dict[tuple[int, str], int] = field(default_factory=dict)
    samples: list[pl.DataFrame] = field(default_factory=list)

    def window(self, **columns: object) -> int:
        self.windows.append(columns)
        return self.last["gpu_windows"] + len(self.windows)

    def function(self, one: Placed | None) -> int:
        key = (one.crc, one.name) if one is not None else (0, UNKNOWN_CODE)
        return self.functions.setdefault(key, self.last["gpu_functions"] + len(self.functions) + 1)

    def reason(self, index: int, name: str) -> int:
        return self.reasons.setdefault((index, name), self.last["stall_reasons"] + len(self.reasons) + 1)


class _Written:
    """Rows to add to the tables of all processes."""

    def __init__(self, last: Mapping[int, Counter[str]]) -> None:
        self._last = last
        self._processes: dict[int, _Rows] = {}

    def add(self, header: Header, block: Block, shares: list[Share], nearest: Placed) -> None:
        """A block's samples. Those that no recorded code covers, and those that the GPU lost, go to the process that has most of the
        block, else to that of `nearest`."""
        by_gpu: dict[tuple[int, str], list[Share]] = defaultdict(list)
        for share in shares:
            if share.of is not None and len(share.count):
                by_gpu[share.of.process, share.of.device].append(share)
        sums = {key: sum(int(one.count.sum()) for one in of) for key, of in by_gpu.items()}
        most = max(sums, key=lambda key: sums[key], default=(nearest.process, nearest.device))
        by_gpu[most] += [share for share in shares if share.of is None and len(share.count)]
        for (process, device), of in by_gpu.items():
            dropped = block.dropped if (process, device) == most else 0
            self._add(process, device, header, block, of, dropped)

    def _add(self, process: int, device: str, header: Header, block: Block, shares: list[Share], dropped: int) -> None:
        if process not in self._processes:
            self._processes[process] = _Rows(self._last.get(process, Counter()))
        rows = self._processes[process]
        window = rows.window(
            device=device,
            begin_ns=block.begin_ns,
            end_ns=block.end_ns,
            samples=sum(int(one.count.sum()) for one in shares),
            dropped=dropped,
            foreign=0,
            period_log2=0,
            launched_by=0,
        )
        for share in shares:
            reasons = np.zeros(len(header.reasons), np.uint32)
            for index in np.unique(share.reason).tolist():
                reasons[index] = rows.reason(index, header.reasons[index])
            function = rows.function(share.of)
            columns = {"offset": share.offset, "reason": reasons[share.reason], "count": share.count}
            rows.samples.append(pl.DataFrame(columns).select(pl.lit(window).alias("window"), pl.lit(function).alias("function"), pl.all()))

    def frames(self) -> Iterator[tuple[str, int, pl.DataFrame]]:
        for process, rows in sorted(self._processes.items()):
            functions = [{"cubin": crc, "name": name} for crc, name in rows.functions]
            reasons = [{"index": index, "name": name} for index, name in rows.reasons]
            parts = {
                "gpu_windows": pl.DataFrame(rows.windows),
                "gpu_functions": pl.DataFrame(functions, schema_overrides={"cubin": pl.UInt64}),
                "stall_reasons": pl.DataFrame(reasons),
                "gpu_samples": pl.concat(rows.samples) if rows.samples else pl.DataFrame(),
            }
            for table, frame in parts.items():
                if len(frame):
                    yield table, process, _with_ids(table, frame, rows.last[table])


def _with_ids(table: str, frame: pl.DataFrame, last: int) -> pl.DataFrame:
    """The rows as they come from the spool."""
    numbered = frame.with_columns(id=pl.int_range(last + 1, last + 1 + len(frame), dtype=pl.UInt32))
    return numbered.select(pl.col(name).cast(kind) for name, kind in empty_frame(TABLE[table]).schema.items())


def _no_frames() -> dict[str, list[pl.DataFrame]]:
    return {name: [empty_frame(TABLE[name])] for name in _READ}


def _mapped(folder: Folder, name: str) -> mmap.mmap | bytes:
    with folder.file(name) as file:
        size = file.seek(0, 2) if file is not None else 0
        if size > _LARGEST:
            raise AiflameError(f"{folder.path / name} is larger than {_LARGEST >> 20} MB: aiflame writes no such file")
        return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) if file is not None and size else b""
