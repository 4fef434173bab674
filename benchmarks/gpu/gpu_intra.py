"""Inside Triton kernels: the cost of instrumentation, that it changes no result, and how true its times are.

    gpu_intra.py --output intra.json

- `suite`: each kernel of tests/gpu/programs/intra_suite.py alone and as its instrumented twin, in turn: time on the device, registers,
  shared memory, and whether all that it writes is equal to the bit.
- `spins`: regions that count their own cycles, against their recorded cycles: as recorded, and after the cost of records is subtracted.
- `parts`: the sum of a kernel's outermost scopes against the time between its first and its last clock read.
- `overlap`: a matrix multiplication without and with pipelining.
- `record_cycles`: the cost of one record to the warp that makes it.
- `ring`: memory that a launch of a million CTAs goes round in: the time to lead addresses to it, and the launch with it and without.

The bytes are decoded here, on their own, so that decoding is not measured by itself; but for `spins`, where aiflame
subtracts the cost of records.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu" / "programs")]

import intra_suite as suite  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
from gpu_common import machine  # noqa: E402

from aiflame.intra import Kernel, compile_hook, decode, device_ring, pass_  # noqa: E402
from aiflame.intra.catalog import chosen  # noqa: E402
from aiflame.intra.clocks import record_cost  # noqa: E402

RECIPES: dict[str, dict[str, Any]] = {
    "auto": {"passes": ["auto"]},
    "auto, global memory": {"passes": ["auto"], "shared": False},
    "auto, 32 bits of clock": {"passes": ["auto"], "clock_bits": 32},
    "regions": {"passes": ["regions"]},
    "loads,mma": {"passes": ["loads", "mma"]},
}
ROUNDS = 30
MOST_BYTES = 64 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--kernels", nargs="+", default=[case.name for case in suite.CASES])
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    options = parser.parse_args()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    result: dict[str, Any] = {"machine": machine(), "triton": triton.__version__, "suite": {}}

    def keep() -> None:
        options.output.write_text(json.dumps(result, indent=1) + "\n")

    for name, measure in (("record_cycles", record_cycles), ("spins", spins), ("overlap", overlap), ("ring", ring)):
        result[name] = tried(measure)
        print(name, result[name], flush=True)
        keep()
    for case in suite.CASES:
        if case.name in options.kernels:
            result["suite"][case.name] = tried(lambda case=case: measured(case, options.recipes))
            print(case.name, json.dumps(result["suite"][case.name]), flush=True)
            keep()
    result["overhead"] = {name: summary(result["suite"], name) for name in options.recipes}
    result["all_equal"] = all(
        one.get("equal") is True for rows in result["suite"].values() for one in rows.values() if isinstance(one, dict) and "equal" in one
    )
    print(json.dumps(result["overhead"]), "all equal:", result["all_equal"])
    keep()


def tried(measure: Any) -> Any:
    try:
        return measure()
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def summary(rows: dict[str, Any], recipe: str) -> dict[str, float]:
    percents = [
        row[recipe]["overhead_percent"] for row in rows.values() if isinstance(row.get(recipe), dict) and "overhead_percent" in row[recipe]
    ]
    return (
        {"kernels": len(percents), "mean_percent": round(statistics.mean(percents), 2), "worst_percent": max(percents)} if percents else {}
    )


class Twin:
    """A kernel's instrumented twin, with memory of torch's for its records."""

    def __init__(self, plain: Any, names: list[str], ctas: int = 132, **recipe: Any) -> None:
        wanted = compile_hook.Recipe(tuple(chosen(names)), **recipe)
        self.made = compile_hook.twin(plain, compile_hook.fitting(wanted, plain, ctas, MOST_BYTES, go_round=True))
        self.made._init_handles()
        self.scopes = {row["id"]: row for row in compile_hook.description(self.made)["scopes"]}
        self.warps = compile_hook.description(self.made)["warp_ids"]
        self.room = {name: compile_hook.description(self.made)[name] for name in ("segment_bytes", "shared")}
        self.bytes = int(self.made.metadata.profile_scratch_size)
        self.memory: Any = None

    def launch(self, grid: tuple[int, ...], arguments: list[Any], ring: Any = None) -> None:
        """`ring`: where its records go round, in the place of memory for each CTA."""
        grid = (*grid, 1, 1)[:3]
        size = self.bytes * grid[0] * grid[1] * grid[2]
        if ring is None and (self.memory is None or self.memory.numel() != size):
            self.memory = torch.zeros(size, dtype=torch.uint8, device="cuda")
        holder = importlib.import_module("triton.runtime._allocation")._profile_allocator
        before = holder.get()
        holder.set(lambda *_: self.memory if ring is None else ring)
        try:
            self.made[grid](*arguments)
        finally:
            holder.set(before)

    def records(self) -> list[dict[str, Any]]:
        """Of each block and warp: (scope, is_end, clock) in order; with the block's own times in nanoseconds."""
        words = self.memory.cpu().numpy().view("<u4").reshape(-1, self.bytes // 4)
        warps = int(self.made.metadata.num_warps)
        records = []
        for block in words:
            if block[0] != 0xDEADBEEF:
                continue
            begin, before_end, _ = (int(time) for time in block[4:10].view("<u8"))
            data = block[10 + warps : 10 + warps + int(block[3]) // 4]
            segment = len(data) // len(self.warps)
            for place, warp in enumerate(self.warps):
                count = int(block[10 + warp])
                rows = data[place * segment : (place + 1) * segment]
                if count > segment:
                    rows = np.roll(rows, -(count % segment))
                rows = rows[: min(count, segment)].reshape(-1, 2).astype(np.uint64)
                clocks = ((rows[:, 0] & 0x7FF) << np.uint64(32)) | rows[:, 1]
                records.append(
                    {
                        "block": int(block[1]),
                        "warp": warp,
                        "ns": before_end - begin,
                        "lost": max(0, count - segment) // 2,
                        "scope": ((rows[:, 0] >> np.uint64(23)) & np.uint64(0xFF)).astype(int),
                        "end": (rows[:, 0] >> np.uint64(31)).astype(bool),
                        "clock": clocks.astype(np.int64),
                    }
                )
        return records

    def decoded(self) -> decode.Records:
        """The same as aiflame itself reads it."""
        bits = compile_hook.description(self.made)["clock_bits"]
        layout = decode.Layout(int(self.made.metadata.num_warps), tuple(self.warps), self.bytes, bits)
        return decode.records(self.memory.cpu().numpy(), layout)

    def durations(self) -> dict[str, list[int]]:
        """Cycles of each scope, wherever it ended."""
        durations: dict[str, list[int]] = {}
        for row in self.records():
            begun: dict[int, int] = {}
            for scope, end, clock in zip(row["scope"], row["end"], row["clock"], strict=True):
                if not end:
                    begun[scope] = clock
                elif scope in begun:
                    durations.setdefault(self.scopes[scope]["name"], []).append(int(clock - begun.pop(scope)))
        return durations


def plain_of(case: suite.Case, given: dict[str, Any], **options: Any) -> tuple[Any, list[Any]]:
    plain = case.launch(given, **options)
    torch.cuda.synchronize()
    return plain, [given[name] if name in given else case.constants[name] for name in case.kernel.arg_names]


def measured(case: suite.Case, recipes: list[str]) -> dict[str, Any]:
    torch.manual_seed(1)
    given = case.given(torch)
    plain, arguments = plain_of(case, given)
    expected = {name: given[name].clone() for name in case.written}
    twins = {}
    result: dict[str, Any] = {"plain": resources(plain)}
    for recipe in recipes:
        chosen = dict(RECIPES[recipe])
        attempt = tried(lambda chosen=chosen: Twin(plain, chosen.pop("passes"), math.prod(case.grid), **chosen))
        if isinstance(attempt, Twin):
            twins[recipe] = attempt
        else:
            result[recipe] = attempt
    for recipe, twin in twins.items():
        for name in case.written:
            given[name].zero_()
        twin.launch(case.grid, arguments)
        torch.cuda.synchronize()
        equal = all(torch.equal(given[name], expected[name]) for name in case.written)
        room = {"records_in": "shared" if twin.room["shared"] else "global", "segment_bytes": twin.room["segment_bytes"]}
        result[recipe] = {"equal": equal, **resources(twin.made), "scopes": len(twin.scopes), "warps": len(twin.warps), **room}
    times: dict[str, list[float]] = {name: [] for name in ("", *twins)}
    grid = (*case.grid, 1, 1)[:3]
    for _ in range(ROUNDS + 3):
        times[""].append(timed(lambda: plain[grid](*arguments)))
        for recipe, twin in twins.items():
            times[recipe].append(timed(lambda twin=twin: twin.launch(grid, arguments)))
    alone = statistics.median(times[""][3:])
    result["plain"]["ms"] = round(alone, 4)
    for recipe, twin in twins.items():
        took = statistics.median(times[recipe][3:])
        result[recipe] |= {"ms": round(took, 4), "overhead_percent": round(100 * (took / alone - 1), 2), **parts(twin)}
    return result


def timed(launch: Any) -> float:
    """Milliseconds on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)  # the launch is queued before it is timed
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def parts(twin: Twin) -> dict[str, Any]:
    """The outermost scopes of each warp against the time from its first to its last record, and the number of lost records."""
    shares, lost, rates = [], 0, []
    for row in twin.records():
        lost += row["lost"]
        if len(row["clock"]) < 4 or row["lost"]:
            continue
        whole = next((number for number, scope in twin.scopes.items() if scope["name"] == "kernel"), -1)
        inner = row["scope"] != whole
        clocks, ends = row["clock"][inner], row["end"][inner]
        if len(clocks) < 2:
            continue
        depth = np.cumsum(np.where(ends, -1, 1))
        outermost = clocks[ends & (depth == 0)].sum() - clocks[~ends & (depth == 1)].sum()
        span = row["clock"][-1] - row["clock"][0]
        shares.append(float(outermost / max(1, span)))
        rates.append(float(span / max(1, row["ns"])))
    return {
        "lost_records": lost,
        "outermost_share": round(statistics.median(shares), 4) if shares else None,
        "cycles_per_ns": round(statistics.median(rates), 4) if rates else None,
    }


def resources(kernel: Any) -> dict[str, int]:
    return {"registers": kernel.n_regs, "spills": kernel.n_spills, "shared": int(kernel.metadata.shared)}


@pass_("spins")
def wrap_spins(kernel: Kernel) -> None:
    for op in kernel.ops("tt.elementwise_inline_asm"):
        kernel.wrap(op, "spin")


@pass_("nothing")
def wrap_nothing(kernel: Kernel) -> None:
    """Two scopes at one place: the second record follows the first at once."""
    for op in kernel.ops("tt.elementwise_inline_asm"):
        for number in range(4):
            kernel.wrap(op, f"spin {number}")


SPINS = 16


def spins() -> dict[str, Any]:
    """The difference between a spin's recorded cycles and those that it counted itself, for each block's first warp."""
    out = torch.empty(132 * SPINS, dtype=torch.int32, device="cuda")
    cost = record_cost([spun(out, 2000, "nothing").decoded()])
    lengths: dict[str, Any] = {}
    for cycles in (500, 2000, 10000, 100000):
        twin = spun(out, cycles, "spins", warps=(0,))
        decoded = twin.decoded()
        both = decode.paired(decoded)
        counted = out.cpu().numpy().reshape(132, SPINS)[decoded.ctas.number].ravel().astype(float)
        took = (decoded.clock[both.end] - decoded.clock[both.begin]).astype(float)
        lengths[str(cycles)] = {
            "count": len(took),
            "counted": float(np.median(counted)),
            "recorded": float(np.median(took)),
            "mean_error_percent": error_percent(took, counted),
            "without_records_mean_error_percent": error_percent(took - cost * (both.end - both.begin), counted),
        }
    names = ("mean_error_percent", "without_records_mean_error_percent")
    return {"record_cycles": cost, **{name: round(statistics.mean(one[name] for one in lengths.values()), 3) for name in names}, **lengths}


def spun(out: Any, cycles: int, name: str, **recipe: Any) -> Twin:
    """After a launch with its records."""
    plain = suite.spins[(132,)](out, cycles, ROUNDS=SPINS)
    twin = Twin(plain, [name], **recipe)
    twin.launch((132,), [out, cycles, SPINS])
    torch.cuda.synchronize()
    return twin


def error_percent(recorded: Any, wanted: Any) -> float:
    return round(100 * float(np.mean(np.abs(recorded - wanted) / wanted)), 3)


def record_cycles() -> dict[str, Any]:
    """The distance of records that follow each other with nothing between."""
    out = torch.empty(132 * SPINS, dtype=torch.int32, device="cuda")
    result = {}
    for shared in (False, True):
        twin = spun(out, 2000, "nothing", shared=shared)
        gaps = []
        for row in twin.records():
            steps = np.diff(row["clock"])
            same = row["end"][1:] == row["end"][:-1]
            gaps += [int(step) for step in steps[same]]
        result["shared" if shared else "global"] = {
            "median": statistics.median(gaps),
            "least": min(gaps),
            "most": max(gaps),
            "count": len(gaps),
        }
    return result


def overlap() -> dict[str, Any]:
    case = next(case for case in suite.CASES if case.name == "gemm")
    given = case.given(torch)
    result: dict[str, Any] = {}
    for stages in (1, 3):
        plain, arguments = plain_of(case, given, num_stages=stages)
        twin = Twin(plain, ["auto"], math.prod(case.grid))
        twin.launch(case.grid, arguments)
        torch.cuda.synchronize()
        blocks = (*case.grid, 1)
        took = [timed(lambda plain=plain, arguments=arguments, blocks=blocks: plain[blocks](*arguments)) for _ in range(20)]
        scopes = {name: {"count": len(durations), "median": statistics.median(durations)} for name, durations in twin.durations().items()}
        result[f"{stages} stages"] = {"ms": round(statistics.median(took), 4), "scopes": scopes}
    return result


@dataclass(frozen=True)
class At:
    """Memory, as Triton's launchers ask it for its address."""

    address: int

    def data_ptr(self) -> int:
        return self.address


def ring() -> dict[str, Any]:
    x = torch.randn(1 << 20, 64, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    grid, arguments = (len(x),), [x, y, 64, 64]
    plain = suite.softmax[grid](x, y, 64, BLOCK=64, num_warps=1)
    twin = Twin(plain, ["auto"])
    result: dict[str, Any] = {"ctas": len(x), "bytes_each": twin.bytes, "supported": device_ring.is_supported(), "lead_ms": {}}
    begin = time.perf_counter()
    memory = device_ring.Ring.make(MOST_BYTES)
    if memory is None:
        return result
    result["make_ms"] = round(1000 * (time.perf_counter() - begin), 3)
    for reach in (1 << 28, 1 << 30, 1 << 33, 1 << 36):
        begin = time.perf_counter()
        reached = memory.reach(reach)
        result["lead_ms"][f"{reach >> 20} MiB"] = round(1000 * (time.perf_counter() - begin), 3) if reached else None
    times: dict[str, list[float]] = {"plain": [], "a place for each": [], "ring": []}
    blocks = (*grid, 1, 1)
    for _ in range(ROUNDS):
        times["plain"].append(timed(lambda: plain[blocks](*arguments)))
        times["a place for each"].append(timed(lambda: twin.launch(grid, arguments)))
        times["ring"].append(timed(lambda: twin.launch(grid, arguments, At(memory.begin))))
    result["ms"] = {name: round(statistics.median(milliseconds), 4) for name, milliseconds in times.items()}
    return result


if __name__ == "__main__":
    main()
