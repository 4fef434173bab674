"""Profiles of sampled kernels, made by hand: the samples are written down, so annotate's answer is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profiles import Row, sealed

from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.store import Profile

VENDOR = "smsp__pcsamp_warps_issue_stalled_"
CUBIN = 0xA1B2C3D4E5F60718
CODE, MODEL, LIBRARY = "/src/attn.py", "/src/model.py", "/lib/triton/standard.py"

Waits = Mapping[str, int]
"""Samples by counter: `wait`, and `wait_not_issued`, which is a part of it."""
Chain = Sequence[tuple[str, str, int]]
"""(function, file, line), outermost first, as in gpu_lines."""


@dataclass
class Sampled:
    """A kernel; `code` has (offset, SASS, chain, waits) of each instruction."""

    name: str
    code: Sequence[tuple[int, str, Chain, Waits]] = ()
    cubin: int = CUBIN
    launches: int = 1
    each_ns: int = 1_000_000
    short: str = ""
    full: str = ""
    shape: Row = field(default_factory=dict)
    api: int = GpuApi.CUDA


def profile(path: Path, *kernels: Sampled, sources: Mapping[str, str] | None = None, meta: Meta | None = None, process: int = 0) -> Profile:
    """Tables without rows are left out, as in a recording."""
    tables: dict[str, list[Row]] = {
        name: []
        for name in (
            *("kernel_shapes", "kernels", "kernel_names", "gpu_functions", "stall_reasons", "gpu_samples", "gpu_windows"),
            *("gpu_instructions", "gpu_lines", "sources", "cubins"),
        )
    }
    counters: dict[str, int] = {}
    for function, kernel in enumerate(kernels, 1):
        _launches(tables, kernel, process)
        tables["kernel_names"].append({"name": kernel.name, "short": kernel.short or kernel.name, "full": kernel.full or kernel.name})
        tables["gpu_functions"].append({"process": process, "cubin": kernel.cubin, "name": kernel.name})
        tables["cubins"].append({"process": process, "crc": kernel.cubin, "bytes": 1000})
        at = {"cubin": kernel.cubin, "function": kernel.name}
        for offset, sass, chain, waits in kernel.code:
            if sass:
                tables["gpu_instructions"].append({**at, "offset": offset, "sass": sass})
            for depth, (name, file, line) in enumerate(chain):
                tables["gpu_lines"].append({**at, "offset": offset, "depth": depth, "name": name, "file": file, "line": line})
            for counter, count in waits.items():
                reason = counters.setdefault(counter, len(counters) + 1)
                sample = {"window": 1, "function": function, "offset": offset, "reason": reason, "count": count}
                tables["gpu_samples"].append({"process": process, **sample})
    tables["stall_reasons"] = [{"process": process, "index": number, "name": VENDOR + name} for name, number in counters.items()]
    if counters:
        tables["gpu_windows"] = [{"device": "H100", "samples": 900, "dropped": 100, "period_log2": 14}]
    tables["sources"] = [{"path": name, "text": text} for name, text in (sources or {}).items()]
    return sealed(path, meta, **{name: rows for name, rows in tables.items() if rows})


def line(number: int, file: str = CODE) -> Chain:
    """Code of the kernel itself."""
    return (("kernel", file, number),)


GEMM = Sampled(
    "_Z4gemmILi4EEvPf",
    [
        (0x00, "LDC R1, c[0x0][0x28]", line(3), {}),
        (0x10, "LDG.E R4, [R2.64]", line(4), {"long_scoreboard": 60, "long_scoreboard_not_issued": 50, "selected": 5}),
        (0x20, "FADD R4, R4, R5", line(5), {"wait": 20, "wait_not_issued": 20}),
        (0x30, "BAR.SYNC 0x0", line(4), {"barrier": 15}),
    ],
    short="gemm<4>",
    full="void gemm<4>(float*)",
    launches=3,
)
TEXT = "\n".join(["import triton", "", "def kernel(p):", "    x = load(p)", "    return x + 1", ""])
HOT, COLD, UNSAMPLED = (
    Sampled("_Z3hotv", [(0, "EXIT", (), {"wait": 9})], short="Gemm<float>"),
    Sampled("_Z4coldv", [(0, "EXIT", (), {"wait": 2})], short="gemm<double>", launches=50),
    Sampled("_Z4elemv", short="elementwise", each_ns=5),
)


def _launches(tables: dict[str, list[Row]], kernel: Sampled, process: int) -> None:
    if not kernel.launches:
        return
    shape = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "device": "H100", "registers": 32}
    tables["kernel_shapes"].append({"process": process, "name": kernel.name, "api": int(kernel.api), **shape, **kernel.shape})
    number = len(tables["kernel_shapes"])
    execution = {"process": process, "shape": number, "api": int(kernel.api), "start_ns": 100, "end_ns": 100 + kernel.each_ns}
    tables["kernels"].extend([execution] * kernel.launches)
