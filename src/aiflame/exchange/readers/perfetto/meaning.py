"""The meaning of slices: calls on threads, work of devices, regions, counters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

from aiflame.exchange.readers.devices.trace import CALLS, CHAINS, COPIES, COUNTERS, KERNELS, REGIONS, DeviceTrace, shaped
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.perfetto.contents import Contents
from aiflame.exchange.readers.perfetto.facts import Facts
from aiflame.exchange.readers.perfetto.flows import ARROWS, FIRST_NUMBER, arrows, flows_of
from aiflame.exchange.readers.perfetto.slices import Slices
from aiflame.exchange.readers.perfetto.tracks import LANES, UNKNOWN, Place
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi, RegionKind
from aiflame.profile.schema.kinds import Kind

_KERNELS = ("kernel", "kernel_dispatch", "gpu_kernel", "concurrent_kernel", "rocm_kernel_dispatch")
_COPIES = ("memory_copy", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "rocm_memory_copy")
_EITHER = ("rocm_hip_stream",)
_MARKED = ("marker_api", "rocm_marker_api")
"""Categories of regions that a program names itself."""
_LINKED = (*_KERNELS, *_COPIES, "hip_api", "hsa_api", "hip_runtime_api", "hip_compiler_api", "rocm_hip_api", "rocm_hsa_api")
"""Categories of the slices of rocprofv3 and ROCm Systems Profiler, which have correlation ids."""
_RUNTIMES = (
    (re.compile(r"ze[A-Z]|ur[A-Z]"), CallBackend.LEVEL_ZERO, GpuApi.LEVEL_ZERO),
    (re.compile(r"hip[A-Z]|__hip"), CallBackend.HIP, GpuApi.HIP),
    (re.compile(r"hsa_"), CallBackend.HSA, GpuApi.HIP),
    (re.compile(r"cu(da)?[A-Z]"), CallBackend.CUDA, GpuApi.CUDA),
    (re.compile(r"cl[A-Z]"), CallBackend.OPENCL, GpuApi.OPENCL),
    (re.compile(r"P?MPI_"), CallBackend.MPI, None),
    (re.compile(r"p?nccl[A-Z]"), CallBackend.NCCL, None),
)
_WAITS = re.compile(r"Synchronize|WaitFor|clFinish|MPI_Wait|hsa_signal_wait")
_COPY = re.compile(r"(?i)mem(ory)?_?(cpy|copy|set|fill)|EnqueueFill|EnqueueRead|EnqueueWrite")
_COPY_KINDS = (
    (CopyKind.FILL, re.compile(r"(?i)memset|fill")),
    (CopyKind.HOST_TO_DEVICE, re.compile(r"HtoD|HostToDevice|HOST_TO_DEVICE|M2D|H2D|EnqueueWrite")),
    (CopyKind.DEVICE_TO_HOST, re.compile(r"DtoH|DeviceToHost|DEVICE_TO_HOST|D2M|D2H|EnqueueRead")),
    (CopyKind.PEER, re.compile(r"PtoP|PeerToPeer|P2P")),
)
_NUMBERED_DEVICE = re.compile(r"(?i)\b(?:GPU|device|agent)\b[^\d/]{0,24}(\d{1,3})")
_NUMBERED_STREAM = re.compile(r"(?i)\b(?:stream|queue)\D{0,4}(\d{1,9})")
_GRID = re.compile(r"(\d{1,10})\D+(\d{1,10})\D+(\d{1,10})")


class Meaning:
    def __init__(self, contents: Contents, making: Making) -> None:
        self.contents, self.making = contents, making
        self.facts = Facts(contents)
        self.trace = DeviceTrace(GpuApi.CUDA)
        self.calls: list[pl.DataFrame] = []
        self.regions: list[pl.DataFrame] = []
        self.kernels: list[pl.DataFrame] = []
        self.copies: list[pl.DataFrame] = []
        self.counters: list[pl.DataFrame] = []
        self.names: dict[str, int] = {}
        """Of kernels."""
        self._launching = pl.Series(dtype=pl.Int64)
        """Events of calls that arrows lead from to work."""
        self._launched = pl.DataFrame(schema={"launch": pl.Int64, "caller": pl.Int64, "number": pl.Int64})
        """Those calls with their process and correlation id."""
        self.devices: dict[str, int] = {}
        self.apis: set[GpuApi] = set()
        self.chains: list[tuple[int, int, int]] = []
        self._chain_rows: dict[tuple[int, int, int], int] = {}

    def add(self, slices: Slices) -> None:
        """The slices of traces of all sorts."""
        rows = self._with_arrows(self.with_texts(slices.slices))
        on_lane = pl.col("tid_of_lane") >= LANES
        devices = {uuid: place for uuid in rows["uuid"].unique().to_list() if (place := self.place(uuid)).device}
        of_iprof = pl.col("uuid").is_in(list(devices))
        of_kernels, of_copies, of_either = (pl.col("category_text").is_in(names) for names in (_KERNELS, _COPIES, _EITHER))
        launched = pl.col("of_runtime") & (on_lane | of_kernels | of_copies)
        is_work = of_iprof | launched | (on_lane & (of_kernels | of_copies | of_either))
        is_copy = is_work & (of_copies | (~of_kernels & pl.col("name_text").str.contains(_COPY.pattern)))
        kernels, copies = rows.filter(is_work & ~is_copy), rows.filter(is_copy)
        others = rows.filter(~is_work)
        self._launching = pl.concat([kernels["launch"], copies["launch"]]).drop_nulls().unique()
        self._count_flows(pl.concat([kernels["flow"], copies["flow"]]))
        marked = pl.col("category_text").is_in(_MARKED)
        self.add_regions(others.filter(marked), RegionKind.NESTED)
        self._add_calls(others.filter(~marked))
        self._add_kernels(kernels)
        self._add_copies(copies)
        self.add_regions(self.with_texts(slices.loose), RegionKind.FREE)
        self.add_regions(self.with_texts(slices.moments).rename({"time": "begin"}).with_columns(end="begin"), RegionKind.MARK)
        self.add_counters(slices.counters)

    def _count_flows(self, used: pl.Series) -> None:
        others = flows_of(self.contents.events)["flow"].n_unique() - used.drop_nulls().n_unique()
        if others:
            self.making.unused["flows between slices"] += others

    def _with_arrows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With `launch`, the event of the call that an arrow comes from, and `of_runtime`, whether that is one of a GPU's runtime."""
        flows = flows_of(self.contents.events)
        used = pl.DataFrame(schema=ARROWS)
        if len(flows):
            runtimes = "|".join(f"(?:{pattern.pattern})" for pattern, _, api in _RUNTIMES if api is not None)
            name = pl.col("name_text")
            is_launch = name.str.contains(f"^(?:{runtimes})") & ~name.str.contains(_WAITS.pattern)
            is_thread = pl.col("tid_of_lane") < LANES
            is_work = pl.col("category_text").is_in([*_KERNELS, *_COPIES, *_EITHER])
            slices = rows.select("event", "end_event", "begin", is_thread=is_thread & ~is_work, launches=is_thread & is_launch & ~is_work)
            used = arrows(flows, slices)
        return rows.join(used, on="event", how="left", maintain_order="left").with_columns(pl.col("of_runtime").fill_null(value=False))

    def place(self, uuid: int) -> Place:
        return self.contents.tracks.place(uuid & 0xFFFFFFFFFFFFFFFF)

    def with_texts(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the texts of names, and of the first category."""
        columns = {}
        for name in ("name", "category"):
            distinct = rows[name].unique()
            texts = [self.contents.texts.all[number] for number in distinct.to_list()]
            if name == "category":
                texts = [text.split(",")[0] for text in texts]
            table = dict(zip(distinct.to_list(), texts, strict=True))
            columns[f"{name}_text"] = rows[name].replace_strict(table, default="", return_dtype=pl.String)
        return rows.with_columns(**columns)

    def call_frame(self, name: str, category: str) -> int:
        """The frame of a call, by its name."""
        for pattern, backend, api in _RUNTIMES:
            if pattern.match(name):
                number = self.trace.frames.number(NamedFrame(name, Kind.C, module=category))
                self.trace.backends[number] = backend
                if api is not None:
                    self.apis.add(api)
                if _WAITS.search(name):
                    self.trace.waits.add(number)
                return number
        return self.trace.frames.number(NamedFrame(name or "[no name]", Kind.C, module=category))

    def chain(self, pid: int, frames: Iterable[int]) -> int:
        """The row of `chains` of a stack, whose frames are given outermost first; -1 for an empty one."""
        row = -1
        for frame in frames:
            key = pid, row, frame
            below = self._chain_rows.get(key)
            if below is None:
                below = self._chain_rows[key] = len(self.chains)
                self.chains.append(key)
            row = below
        return row

    def _add_calls(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        kinds = rows.select("name_text", "category_text").unique(maintain_order=True)
        frames = pl.Series([self.call_frame(*pair) for pair in kinds.iter_rows()], dtype=pl.Int64)
        rows = rows.join(kinds.with_columns(frame=frames), on=["name_text", "category_text"], how="left", maintain_order="left")
        rows = self._with_links(self.placed(rows))
        launching = pl.col("event").is_in(self._launching.implode())
        rows = rows.with_columns(correlation=pl.coalesce("correlation", pl.when(launching).then(pl.col("event") + FIRST_NUMBER)))
        self._launched = rows.filter(launching).select(launch="event", caller="pid", number="correlation")
        self.calls.append(rows)

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the process and thread that the slices are on."""
        return rows.with_columns(pid="pid_of_lane", tid="tid_of_lane")

    def _with_links(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the correlation id of rocprofv3, or the number of the first stage of a GPU that a call submitted."""
        linked = rows.with_row_index("at").filter(pl.col("category_text").is_in(_LINKED))
        numbers = {at: self.facts.number(event, "corr_id") for at, event in linked.select("at", "event").iter_rows()}
        linked_rows = pl.DataFrame({"at": list(numbers), "linked": list(numbers.values())}, schema={"at": pl.UInt32, "linked": pl.Int64})
        submitted = pl.concat([pl.DataFrame(schema={"event": pl.Int64, "work": pl.UInt64}), *self.contents.events.correlations])
        first = submitted.unique("event", keep="first").with_columns(work=pl.col("work").cast(pl.Int64, strict=False) + 1)
        rows = rows.with_row_index("at").join(linked_rows, on="at", how="left", maintain_order="left")
        rows = rows.join(first, on="event", how="left", maintain_order="left")
        return rows.with_columns(correlation=pl.coalesce("linked", "work"))

    def _work(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the columns of work of devices."""
        rows = self._with_links(self.placed(rows)).join(self._launched, on="launch", how="left", maintain_order="left")
        rows = rows.with_columns(pid=pl.coalesce("caller", "pid"), correlation=pl.coalesce("number", "correlation"))
        devices, streams = [], []
        for uuid, event in rows.select("uuid", "event").iter_rows():
            place = self.place(uuid)
            path = " / ".join(place.path)
            of = _NUMBERED_DEVICE.search(path)
            agent = place.device or self.facts.text(event, "agent") or self.facts.text(event, "dst_agent")
            name = agent or (f"GPU {of[1]}" if of else "GPU")
            devices.append(self.devices.setdefault(name, len(self.devices)))
            queue, stream = self.facts.number(event, "queue"), _NUMBERED_STREAM.search(path)
            lane = int(stream[1]) if stream and not agent else place.tid - LANES + 1 if not place.is_thread else place.tid
            streams.append(place.stream if place.device else queue if queue is not None else lane)
        return rows.with_columns(pl.Series("device", devices, dtype=pl.Int64), pl.Series("stream", streams, dtype=pl.Int64))

    def _add_kernels(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        rows = self._work(rows)
        shapes: dict[str, list[int]] = {f"{name}_{axis}": [] for name in ("grid", "block") for axis in "xyz"}
        for event in rows["event"].to_list():
            for name, key in (("grid", "grid_size"), ("block", "workgroup_size")):
                text = self.facts.text(event, key)
                match = _GRID.search(text)
                sizes = [int(one) for one in match.groups()] if match else [int(text) if text.isdecimal() and len(text) < 11 else 0, 0, 0]
                for axis, size in zip("xyz", sizes, strict=True):
                    shapes[f"{name}_{axis}"].append(size)
        self.add_kernels(rows.with_columns(pl.Series(name, column, dtype=pl.Int64) for name, column in shapes.items()))

    def add_kernels(self, rows: pl.DataFrame) -> None:
        """Kernels, by `name_text`."""
        distinct = rows["name_text"].unique(maintain_order=True).to_list()
        numbers = {name: self.names.setdefault(name, len(self.names)) for name in distinct}
        self.kernels.append(rows.with_columns(name=pl.col("name_text").replace_strict(numbers, return_dtype=pl.Int64)))

    def _add_copies(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        rows = self._work(rows)
        kinds = [copy_kind(name) for name in rows["name_text"].to_list()]
        sizes = [self.facts.number(event, "copy_bytes") or 0 for event in rows["event"].to_list()]
        self.copies.append(rows.with_columns(pl.Series("kind", kinds, dtype=pl.Int64), pl.Series("bytes", sizes, dtype=pl.Int64)))

    def add_regions(self, rows: pl.DataFrame, kind: RegionKind) -> None:
        if len(rows):
            self.regions.append(self.placed(rows).with_columns(kind=pl.lit(int(kind)), name="name_text", category="category_text"))

    def add_counters(self, rows: pl.DataFrame) -> None:
        """Values of counters, each on its process; those of Perfetto's SDK beside slices are only counted."""
        if rows.is_empty():
            return
        names, factors, pids, running = {}, {}, {}, set()
        for uuid in rows["uuid"].unique().to_list():
            around = self.contents.tracks.ancestors(uuid & 0xFFFFFFFFFFFFFFFF)
            counter = around[0].counter if around else None
            path = [one.name for one in reversed(around) if one.name and one.pid < 0]
            names[uuid] = " / ".join(path) or "[no name]"
            if counter is not None and counter.unit:
                names[uuid] += f" ({counter.unit})"
            factors[uuid] = float(counter.factor) if counter is not None else 1.0
            pids[uuid] = self.place(uuid).pid
            if counter is not None and counter.incremental:
                running.add(uuid)
        rows = rows.filter(pl.col("value").is_finite()).with_columns(
            pid=pl.col("uuid").replace_strict(pids, return_dtype=pl.Int64),
            name=pl.col("uuid").replace_strict(names, return_dtype=pl.String),
            value=pl.col("value") * pl.col("uuid").replace_strict(factors, return_dtype=pl.Float64),
        )
        total = pl.col("value").cum_sum().over("uuid", "scope")
        self.counters.append(rows.with_columns(value=pl.when(pl.col("uuid").is_in(list(running))).then(total).otherwise("value")))

    def finish(self) -> DeviceTrace:
        trace = self.trace
        parts: Mapping[str, tuple[list[pl.DataFrame], Mapping[str, pl.DataType]]] = {
            "calls": (self.calls, CALLS),
            "regions": (self.regions, REGIONS),
            "kernels": (self.kernels, KERNELS),
            "copies": (self.copies, COPIES),
            "counters": (self.counters, COUNTERS),
        }
        for name, (tables, schema) in parts.items():
            if tables:
                setattr(trace, name, pl.concat([shaped(table, schema) for table in tables]))
        if self.chains:
            trace.chains = pl.DataFrame(self.chains, schema=dict(CHAINS), orient="row")
        trace.names = {number: name for name, number in self.names.items()}
        trace.devices = {number: name for name, number in self.devices.items()}
        trace.processes.update({UNKNOWN: "[process not recorded]", **self.contents.tracks.processes})
        trace.threads.update(self.contents.tracks.threads)
        trace.since_1970 = self.contents.clocks.realtime()
        if len(self.apis) == 1 or (self.apis and trace.api not in self.apis):
            trace.api = min(self.apis)
        return trace


def copy_kind(name: str) -> int:
    return next((int(kind) for kind, pattern in _COPY_KINDS if pattern.search(name)), int(CopyKind.DEVICE_TO_DEVICE))
