"""A made-up training run: the rows of each table that its steps, stacks and samples leave in a profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from synthetic_program import DEVICE, Program, Site
from synthetic_tables import Tables, frame_of

from aiflame.profile.schema.enums import CopyKind, FrameKind, GpuApi, RegionApi, RegionKind, SyncKind
from aiflame.profile.schema.kinds import Kind

CHUNK = 1 << 20
MAIN, AUTOGRAD = 1, 2
STREAMS = (7, 13)
BEGIN_NS = 1_000_000_000_000
REASONS = ("selected", "long_scoreboard", "wait", "short_scoreboard", "barrier", "math_pipe_throttle", "not_selected", "mio_throttle")
INSTRUCTIONS = 256
WINDOW_NS = 150_000_000


@dataclass(frozen=True, slots=True)
class Size:
    kernels: int
    """The least number of kernels: steps are whole."""
    stacks: int = 2000
    """About as many distinct launch stacks, if there are enough steps."""
    layers: int = 24
    cpu_samples: int = 0
    gpu_samples: int = 0
    """Rows of `gpu_samples`."""
    marked: bool = False
    """NVTX regions of steps, phases and layers beside the marks of aiflame itself."""


@dataclass
class TrainingRun:
    """One process that trains."""

    size: Size
    program: Program
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def __post_init__(self) -> None:
        sites = self.program.sites
        self.a_step = len(sites)
        self.steps = max(1, -(-self.size.kernels // self.a_step))
        self.steps_a_chunk = max(1, CHUNK // self.a_step)
        self.variants = int(np.clip(round(self.size.stacks / self.a_step), 1, self.steps))
        self.forward = sum(site.phase == "forward" for site in sites)
        self.template = step_template(sites, self.random)
        self.scale = self.random.uniform(0.92, 1.08, self.steps)
        self.waits = np.where(np.arange(self.steps) % 10 == 9, 2_000_000, 150_000)
        took = self.waits + (self.template.period * self.scale).astype(np.int64) + 60_000
        self.begins = BEGIN_NS + 1_000_000 + np.append(0, np.cumsum(took))
        self.end_ns = int(self.begins[-1]) + 1_000_000

    @cached_property
    def _site(self) -> dict[str, NDArray[np.int64]]:
        """Columns of the sites."""
        sites = self.program.sites
        last = 0
        sequence = []
        for site in sites:
            last = site.node if site.node else last
            sequence.append(last)
        return {
            "shape": np.array([1 + self.program.kernels.index(site.kernel) for site in sites]),
            "stack": np.array([site.stack for site in sites]),
            "thread": np.array([AUTOGRAD if site.phase == "backward" else MAIN for site in sites]),
            "backward": np.array([site.phase == "backward" for site in sites]).astype(np.int64),
            "stream": np.array([STREAMS[site.stream] for site in sites]),
            "node": np.array(sequence),
        }

    def facts(self, tables: Tables) -> None:
        """All tables but those that grow with each step."""
        code, own = self.program, len(self.program.words)
        tables.add(
            "processes", 1, pid=4242, ppid=4200, start_ns=BEGIN_NS, command="python3\0train.py", exe="/usr/bin/python3", cwd="/home/me"
        )
        tables.add("process_ends", 1, end_ns=self.end_ns, cpu_ns=self.end_ns - BEGIN_NS)
        tables.add("threads", 2, tid=np.array([4242, 4260]), start_ns=BEGIN_NS, name=np.array(["python3", "pt_autograd_0"]))
        names = np.array(["python3", "pt_autograd_0"])
        tables.add("thread_ends", 2, thread=np.array([1, 2]), name=names, end_ns=self.end_ns, cpu_ns=self.end_ns - BEGIN_NS)
        tables.add("modules", 1, path="/opt/torch/lib/libtorch_cuda.so", low=0x1000, high=1 << 30, seen_ns=BEGIN_NS)
        functions = [*code.python, *((f"caller_{number}", "/home/me/callers.py", 1 + 4 * number) for number in range(self.variants))]
        lines = np.array([line for _, _, line in functions])
        files, called = np.array([file for _, file, _ in functions]), np.array([name for name, _, _ in functions])
        tables.add("codes", len(functions), first_line=lines, filename=files, qualname=called, python=0x30C)
        # Each caller of the model has the whole trie under itself.
        parents, words = np.array(code.parents), np.array(code.words, dtype=np.uint64)
        copies = np.arange(self.variants)[:, None] * (own + 1)
        caller = (
            (FrameKind.PYTHON << 60) + ((len(code.python) + 1 + np.arange(self.variants, dtype=np.uint64)) << np.uint64(32)) + np.uint64(9)
        )
        parent = np.concatenate([np.zeros_like(copies), copies + 1 + parents], axis=1)
        frame = np.concatenate([caller[:, None], np.broadcast_to(words, (self.variants, own))], axis=1)
        tables.add("stacks", parent.size, parent=parent.ravel(), frame=frame.ravel())
        tables.add("layers", len(code.layers), address=np.arange(len(code.layers)) * 64 + (1 << 46), type=[kind for _, kind in code.layers])
        tables.add(
            "layer_names",
            len(code.layers),
            layer=np.arange(1, len(code.layers) + 1),
            root=1,
            path=[name for name, _ in code.layers],
            type=[f"model.{kind}" for _, kind in code.layers],
        )
        tables.add(
            "kernel_shapes",
            len(code.kernels),
            name=[kernel.compiled for kernel in code.kernels],
            device=DEVICE,
            api=int(GpuApi.CUDA),
            grid_x=np.arange(len(code.kernels)) * 16 + 132,
            grid_y=1,
            grid_z=1,
            block_x=256,
            block_y=1,
            block_z=1,
            registers=64,
            dynamic_shared=49152,
        )
        tables.keep("symbols", self._symbols(functions))
        tables.keep("kernel_names", code.kernel_names())
        tables.add("clocks", 1, monotonic_ns=BEGIN_NS, raw_ns=BEGIN_NS, realtime_ns=BEGIN_NS + 1_790_000_000_000_000_000)

    def _symbols(self, functions: list[tuple[str, str, int]]) -> pl.DataFrame:
        python, native = np.arange(1, len(functions) + 1, dtype=np.uint64), np.array(sorted(self.program.native.values()), dtype=np.uint64)
        names = [name for name, _ in sorted(self.program.native.items(), key=lambda pair: pair[1])]
        count = len(python) + len(native)
        words = np.concatenate([(FrameKind.PYTHON << 60) + (python << np.uint64(32)) + np.uint64(9), native])
        text = {"full_name": "", "depth": 0, "approximate": False}
        rows = {
            "process": 0,
            "frame": words,
            **text,
            "name": [name for name, _, _ in functions] + names,
            "kind": [int(Kind.PYTHON)] * len(python) + [int(Kind.CPP)] * len(native),
            "module": [""] * len(python) + ["libtorch_cuda.so"] * len(native),
            "file": [file for _, file, _ in functions] + [""] * len(native),
            "line": [line + 2 for _, _, line in functions] + [0] * len(native),
            "offset": 0,
        }
        kinds = {
            "process": pl.UInt32(), "frame": pl.UInt64(), "depth": pl.UInt16(), "name": pl.String(), "full_name": pl.String(),
            "kind": pl.UInt8(), "module": pl.String(), "file": pl.String(), "line": pl.UInt32(), "offset": pl.UInt64(),
            "approximate": pl.Boolean(),
        }  # fmt: skip
        return frame_of(count, rows, kinds)

    def work(self, tables: Tables, steps: NDArray[np.int64]) -> None:
        """The launches, kernels, copies, waits and marks of these steps."""
        form, site, many = self.template, self._site, len(steps)
        scale, base = self.scale[steps][:, None], (self.begins[steps] + self.waits[steps])[:, None]
        own = len(self.program.words) + 1

        def at(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
            return base + (offsets * scale).astype(np.int64)

        def each(column: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.tile(column, (many, 1))

        # A step's launches: the copy of its data, its kernels, the copy of its loss, and the wait for it.
        calls = self.a_step + 3
        number = steps[:, None] * calls + 1
        correlation = number + np.arange(calls)
        edge = np.array([0, form.loss, form.loss + 3000])
        begin = np.concatenate([at(edge[:1]), at(form.launch), at(edge[1:])], axis=1)
        main, loader = np.array([MAIN]), np.array([self.program.data_stack])
        loss = np.array([self.program.loss_stack] * 2)
        stack = np.concatenate([loader, site["stack"], loss]) + 1 + (steps % self.variants * own)[:, None]
        thread = np.concatenate([main, site["thread"], main, main])
        backward = np.concatenate([[0], site["backward"], [0, 0]])
        first_node = steps[:, None] * (self.forward + 1) + 1
        node = first_node + np.concatenate([[0], site["node"], site["node"][-1:], site["node"][-1:]])
        end = begin + 1800
        end[:, -1] = at(np.array([form.period]))[:, 0]
        tables.add(
            "launches",
            many * calls,
            thread=each(thread).ravel(),
            stack=stack.ravel(),
            api=int(GpuApi.CUDA),
            autograd=each(1 + (backward << 15)).ravel(),
            sequence=node.ravel(),
            begin_ns=begin.ravel(),
            end_ns=end.ravel(),
            correlation=correlation.ravel(),
        )
        tables.add(
            "kernels",
            many * self.a_step,
            shape=each(site["shape"]).ravel(),
            correlation=correlation[:, 1:-2].ravel(),
            start_ns=at(form.start).ravel(),
            end_ns=at(form.end).ravel(),
            stream=each(site["stream"]).ravel(),
            api=int(GpuApi.CUDA),
        )
        tables.add(
            "copies",
            many * 2,
            kind=np.tile([int(CopyKind.HOST_TO_DEVICE), int(CopyKind.DEVICE_TO_HOST)], many),
            device=DEVICE,
            api=int(GpuApi.CUDA),
            correlation=correlation[:, [0, -2]].ravel(),
            start_ns=at(np.array([2500, form.period - 2500])).ravel(),
            end_ns=at(np.array([6500, form.period - 1200])).ravel(),
            bytes=np.tile([1 << 20, 4], many),
            stream=STREAMS[0],
        )
        tables.add(
            "syncs",
            many,
            kind=int(SyncKind.STREAM),
            api=int(GpuApi.CUDA),
            correlation=correlation[:, -1],
            start_ns=begin[:, -1],
            end_ns=end[:, -1],
            stream=STREAMS[0],
        )
        value = (3 + 8 / (1 + 0.01 * steps)).view(np.uint64)
        tables.add("counters", many, thread=MAIN, name="loss", value=value, time_ns=end[:, -1])
        self._regions(tables, steps)

    def _regions(self, tables: Tables, steps: NDArray[np.int64]) -> None:
        form, base = self.template, self.begins[steps] + self.waits[steps]

        def within(offset: int) -> NDArray[np.int64]:
            return base + (offset * self.scale[steps]).astype(np.int64)

        rows = [
            ("data", self.begins[steps] + 2000, base - 2000, RegionApi.AUTOMATIC),
            ("optimizer", within(form.optimizer - 500), within(form.loss - 500), RegionApi.AUTOMATIC),
        ]
        if self.size.marked:
            rows += [
                ("Step", self.begins[steps], within(form.period) + 30_000, RegionApi.NVTX),
                ("Forward", within(0), within(form.backward - 800), RegionApi.NVTX),
                ("Backward", within(form.backward - 700), within(form.optimizer - 800), RegionApi.NVTX),
                ("Optimizer", within(form.optimizer - 700), within(form.loss - 300), RegionApi.NVTX),
            ]
        many = len(steps)
        begin = np.stack([begin for _, begin, _, _ in rows], axis=1).ravel()
        end = np.stack([end for _, _, end, _ in rows], axis=1).ravel()
        ours = [api == RegionApi.AUTOMATIC for _, _, _, api in rows]
        order = np.argsort(begin, kind="stable")
        first = tables.rows("regions")
        names = np.tile([name for name, _, _, _ in rows], many)[order]
        if self.size.marked:
            numbered = np.char.add("Step.", np.repeat(steps, len(rows))[order].astype(str))
            names = np.where(names == "Step", numbered, names)
        tables.add(
            "regions",
            many * len(rows),
            thread=MAIN,
            api=np.tile([int(api) for _, _, _, api in rows], many)[order],
            kind=int(RegionKind.NESTED),
            domain=np.where(np.tile(ours, many), "aiflame", "")[order],
            name=names,
            payload=np.where(names == "optimizer", 0x5000, 0),
            begin_ns=begin[order],
        )
        tables.add("region_ends", many * len(rows), region=first + 1 + np.arange(many * len(rows)), thread=MAIN, end_ns=end[order])

    def samples(self, tables: Tables) -> None:
        """CPU samples, evenly in time, at stacks that launched about then; samples of warps, a few reasons and instructions each."""
        own = len(self.program.words) + 1
        span = int(self.begins[-1] - self.begins[0])
        for first in range(0, self.size.cpu_samples, CHUNK):
            many = min(CHUNK, self.size.cpu_samples - first)
            time = self.begins[0] + (np.arange(first, first + many) + 0.5) * (span / self.size.cpu_samples)
            step = np.clip(np.searchsorted(self.begins, time, side="right") - 1, 0, self.steps - 1)
            within = (time - self.begins[step] - self.waits[step]) / self.scale[step]
            place = np.searchsorted(self.template.launch, within, side="right") - 1
            loading = place < 0
            waiting = within >= self.template.loss
            stack = np.where(loading, self.program.data_stack, self._site["stack"][np.maximum(place, 0)])
            stack = np.where(waiting, self.program.loss_stack, stack)
            tables.add(
                "cpu_samples",
                many,
                thread=np.where(loading, MAIN, self._site["thread"][np.maximum(place, 0)]),
                stack=stack + 1 + step % self.variants * own,
                weight=1,
                time_ns=time.astype(np.int64),
                period_ns=span // self.size.cpu_samples,
            )
        if self.size.gpu_samples:
            self._gpu_samples(tables, span)

    def _gpu_samples(self, tables: Tables, span: int) -> None:
        kernels = self.program.kernels
        cubins = np.arange(1, len(kernels) + 1) * 0x1111
        tables.add("cubins", len(kernels), crc=cubins, bytes=4096, time_ns=BEGIN_NS)
        names = [f"smsp__pcsamp_warps_issue_stalled_{name}" for name in REASONS]
        names += [f"{name}_not_issued" for name in names]
        tables.add("stall_reasons", len(names), index=np.arange(len(names)), name=names)
        tables.add("gpu_functions", len(kernels), cubin=cubins, name=[kernel.compiled for kernel in kernels])
        windows = max(1, span // WINDOW_NS)
        counts = np.zeros(windows, dtype=np.int64)
        took = np.bincount(self._site["shape"] - 1, self.template.end - self.template.start, len(kernels))
        for first in range(0, self.size.gpu_samples, CHUNK):
            many = min(CHUNK, self.size.gpu_samples - first)
            window = np.arange(first, first + many) * windows // self.size.gpu_samples
            function = self.random.choice(len(kernels), many, p=took / took.sum())
            reason = np.minimum(self.random.exponential(1.6, many).astype(np.int64), len(REASONS) - 1)
            issued = self.random.random(many) < 0.5
            count = 1 + self.random.poisson(2, many)
            counts += np.bincount(window[issued], count[issued], windows).astype(np.int64)
            tables.add(
                "gpu_samples",
                many,
                window=window + 1,
                function=function + 1,
                offset=16 * np.minimum(self.random.exponential(INSTRUCTIONS / 6, many).astype(np.int64), INSTRUCTIONS - 1),
                reason=1 + reason + np.where(issued, 0, len(REASONS)),
                count=count,
            )
        edges = self.begins[0] + np.arange(windows + 1) * (span // windows)
        tables.add("gpu_windows", windows, device=DEVICE, begin_ns=edges[:-1], end_ns=edges[1:], samples=counts, period_log2=20)
        for name, frame in self.program.gpu_code(cubins, INSTRUCTIONS).items():
            tables.keep(name, frame)


@dataclass(frozen=True, slots=True)
class StepTemplate:
    """Moments of one step, in ns after its data is there."""

    launch: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    backward: int
    optimizer: int
    loss: int
    """The loss is copied."""
    period: int


def step_template(sites: list[Site], random: np.random.Generator) -> StepTemplate:
    launch = 9000 + np.cumsum(random.integers(3500, 6000, len(sites)))
    took = (np.array([site.kernel.micros for site in sites]) * 1000 * random.uniform(0.8, 1.2, len(sites))).astype(np.int64)
    stream = np.array([site.stream for site in sites])
    start = np.zeros(len(sites), dtype=np.int64)
    for number in np.unique(stream):
        here = np.flatnonzero(stream == number)
        before = np.cumsum(took[here] + 400) - took[here] - 400
        start[here] = before + np.maximum.accumulate(launch[here] + 2500 - before)
    end = start + took
    first = {phase: next(row for row, site in enumerate(sites) if site.phase == phase) for phase in ("backward", "optimizer")}
    loss = int(launch[-1]) + 5000
    return StepTemplate(
        launch, start, end, int(launch[first["backward"]]), int(launch[first["optimizer"]]), loss, max(int(end.max()), loss) + 12_000
    )
