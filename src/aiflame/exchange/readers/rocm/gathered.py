"""Traces of ROCm's profilers, from each kind of file: calls of HIP and HSA, marked ranges, kernels, copies."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from aiflame.exchange.readers.devices.trace import CALLS, COPIES, I64, KERNELS, REGIONS, TEXT, DeviceTrace, shaped
from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.rocm.code_objects import CodeObject, add_tables
from aiflame.exchange.readers.rocm.pc_samples import SAMPLES, add_samples
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi, RegionKind
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass, field

OF_CALLS = {"pid": I64, "tid": I64, "begin": I64, "end": I64, "correlation": I64, "domain": TEXT, "name": TEXT}
_OF_WORK = {"pid": I64, "correlation": I64, "begin": I64, "end": I64, "agent": TEXT, "stream": I64}
OF_KERNELS = {
    **_OF_WORK,
    "name": TEXT,
    "dispatch": I64,
    **{f"{of}_{axis}": I64 for of in ("items", "block") for axis in "xyz"},  # work items in all, and of a workgroup
    **dict.fromkeys(("registers", "static_shared", "local_bytes"), I64),
}
OF_COPIES = {**_OF_WORK, "direction": TEXT, "bytes": I64}

_MARKERS = re.compile(r"MARKER|ROCTX", re.IGNORECASE)
_BACKENDS = (
    (re.compile(r"HIP", re.IGNORECASE), CallBackend.HIP),
    (re.compile(r"HSA", re.IGNORECASE), CallBackend.HSA),
    (re.compile(r"RCCL|NCCL", re.IGNORECASE), CallBackend.NCCL),
)
_BY_NAME = (
    (re.compile(r"_*hip[A-Z]"), CallBackend.HIP),
    (re.compile(r"hsa_"), CallBackend.HSA),
    (re.compile(r"nccl[A-Z]"), CallBackend.NCCL),
)
_WAITS = re.compile(r"Synchronize|WaitEvent|signal_wait")
_DIRECTIONS = (
    (CopyKind.HOST_TO_DEVICE, re.compile(r"HOST_TO_DEVICE|HostToDevice|HtoD")),
    (CopyKind.DEVICE_TO_HOST, re.compile(r"DEVICE_TO_HOST|DeviceToHost|DtoH")),
    (CopyKind.MAP, re.compile(r"HOST_TO_HOST|HostToHost")),
    (CopyKind.FILL, re.compile(r"fill|memset", re.IGNORECASE)),
)
_KERNEL_SUFFIX = re.compile(r"\.kd$")
MODULE = "[roctx]"


@dataclass(slots=True)
class Gathered:
    calls: list[pl.DataFrame] = field(default_factory=list)
    """OF_CALLS. A range of ROCTX is a call of the domain MARKER."""
    kernels: list[pl.DataFrame] = field(default_factory=list)
    copies: list[pl.DataFrame] = field(default_factory=list)
    samples: list[pl.DataFrame] = field(default_factory=list)
    """`pc_samples.SAMPLES`"""
    code: dict[tuple[int, int], CodeObject] = field(default_factory=dict)
    """Code objects at hand, by process and number."""
    agents: dict[str, str] = field(default_factory=dict)
    """The name of each device."""
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    since_1970: int | None = None

    def write(self, making: Making) -> None:
        reasons = () if any(part["issued"].is_not_null().any() for part in self.samples) else ("stall reasons of kernels",)
        making.lacks = (*reasons, "CPU time (calls have wall-clock time)", "stacks of functions")
        trace = DeviceTrace(GpuApi.HIP, processes=self.processes, threads=self.threads, since_1970=self.since_1970)
        self._add_calls(trace)
        agents = self._agents()
        trace.devices = {number: self._device(agent, number) for agent, number in agents.items()}
        self._add_kernels(trace, agents)
        self._add_copies(trace, agents)
        samples, kernels = _joined(self.samples, SAMPLES), _joined(self.kernels, OF_KERNELS)
        add_samples(trace, samples, kernels)
        process = write(trace, making)
        if self.code:
            dispatches = kernels.drop_nulls(["dispatch", "begin", "end"]).with_columns(
                pl.col("begin", "end") + trace.shift,
                device=_device_number(agents).replace_strict(dict(trace.devices), default="GPU", return_dtype=pl.String),
            )
            add_tables(making, self.code, samples, dispatches, process)

    def _add_calls(self, trace: DeviceTrace) -> None:
        calls = _joined(self.calls, OF_CALLS)
        kinds = calls.select("domain", "name").unique(maintain_order=True)
        numbers, marked = [], []
        for domain, name in kinds.iter_rows():
            is_mark = bool(_MARKERS.search(domain))
            backend = None if is_mark else _backend(domain, name)
            number = trace.frames.number(NamedFrame(name or "[call]", Kind.C, module=MODULE if is_mark else _module(domain, backend)))
            if backend is not None:
                trace.backends[number] = backend
            if not is_mark and _WAITS.search(name):
                trace.waits.add(number)
            numbers.append(number)
            marked.append(is_mark)
        kinds = kinds.with_columns(frame=pl.Series(numbers, dtype=pl.Int64), marked=pl.Series(marked, dtype=pl.Boolean))
        calls = calls.join(kinds, on=["domain", "name"], how="left", maintain_order="left")
        moment = pl.col("marked") & (pl.col("begin") == pl.col("end"))
        trace.calls = shaped(calls.filter(~moment), CALLS)
        kind = pl.when(moment).then(int(RegionKind.MARK)).otherwise(int(RegionKind.NESTED))
        trace.regions = shaped(calls.filter("marked").with_columns(kind=kind, domain=pl.lit("roctx")), REGIONS)

    def _agents(self) -> dict[str, int]:
        """Devices that worked, by number: in the order of the numbers in their names."""
        used = {agent for rows in (*self.kernels, *self.copies) for agent in rows["agent"].drop_nulls().unique().to_list()}
        return {agent: number for number, agent in enumerate(sorted(used, key=lambda agent: (_last_number(agent), agent)))}

    def _device(self, agent: str, number: int) -> str:
        return f"{self.agents.get(agent) or 'GPU'} [{number}]"

    def _add_kernels(self, trace: DeviceTrace, agents: Mapping[str, int]) -> None:
        rows = _joined(self.kernels, OF_KERNELS).with_columns(name=pl.col("name").fill_null("[unknown kernel]"))
        texts = rows["name"].unique(maintain_order=True).to_list()
        trace.names = {number: _KERNEL_SUFFIX.sub("", text) for number, text in enumerate(texts)}
        blocks = {
            f"grid_{axis}": pl.when(pl.col(f"block_{axis}") > 0)
            .then((pl.col(f"items_{axis}") + pl.col(f"block_{axis}") - 1) // pl.col(f"block_{axis}"))
            .otherwise(f"items_{axis}")
            for axis in "xyz"
        }
        rows = rows.with_columns(
            name=pl.col("name").replace_strict({text: number for number, text in enumerate(texts)}, return_dtype=pl.Int64),
            device=_device_number(agents),
            **blocks,
        )
        trace.kernels = shaped(rows, KERNELS)

    def _add_copies(self, trace: DeviceTrace, agents: Mapping[str, int]) -> None:
        rows = _joined(self.copies, OF_COPIES).with_columns(pl.col("direction").fill_null(""))
        kinds = {
            text: next((int(kind) for kind, pattern in _DIRECTIONS if pattern.search(text)), int(CopyKind.DEVICE_TO_DEVICE))
            for text in rows["direction"].unique().to_list()
        }
        rows = rows.with_columns(
            kind=pl.col("direction").replace_strict(kinds, default=int(CopyKind.DEVICE_TO_DEVICE), return_dtype=pl.Int64),
            device=_device_number(agents),
        )
        trace.copies = shaped(rows, COPIES)


def _joined(parts: list[pl.DataFrame], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    empty = pl.DataFrame(schema=dict(schema))
    rows = [
        part.select(
            (pl.col(name).cast(kind, strict=False) if name in part.columns else pl.lit(None, dtype=kind)).alias(name)
            for name, kind in schema.items()
        )
        for part in parts
    ]
    joined = pl.concat([empty, *rows])
    return joined.with_columns(pl.col(name).fill_null("") for name in ("domain", "name") if schema is OF_CALLS)


def _device_number(agents: Mapping[str, int]) -> pl.Expr:
    return pl.col("agent").replace_strict(dict(agents), default=0, return_dtype=pl.Int64)


def _last_number(agent: str) -> int:
    match = re.search(r"(\d{1,18})\D*$", agent)
    return int(match[1]) if match else -1


def _backend(domain: str, name: str) -> CallBackend | None:
    return next(
        (backend for patterns, text in ((_BACKENDS, domain), (_BY_NAME, name)) for pattern, backend in patterns if pattern.search(text)),
        None,
    )


def _module(domain: str, backend: CallBackend | None) -> str:
    return {CallBackend.HIP: "HIP", CallBackend.HSA: "HSA", CallBackend.NCCL: "RCCL"}.get(backend, domain) if backend else domain
