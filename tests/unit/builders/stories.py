"""Programs on a device written down moment by moment, in microseconds: launches, their work's times, and threads' stacks meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiles import Row, python, ran, sealed
from written_programs import DEVICE, TRAIN, Program

from aiflame.attribute.counters.names import ACTIVE_CYCLES, CYCLES, DRAM, TENSOR_CYCLES, WARP_CYCLES
from aiflame.attribute.limits.peaks import peaks
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.enums import SyncKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

US = 1000
MAIN = ("train", "/app/train.py", 12)
LOOP = ("train", "/app/train.py", 8)
"""`for batch in loader:`"""
ITEM = ("train", "/app/train.py", 31)
MHZ, WARPS_AT_ONCE = 1500, 64
"""Of a multiprocessor: its clock, and the warps that it holds."""
VENDOR = "smsp__pcsamp_warps_issue_stalled_"


class Story(Program):
    """Frames of Python may have a line: (name, file, line)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables |= {"syncs": [], "gpu_windows": [], "gpu_functions": [], "stall_reasons": [], "gpu_samples": [], "gpu_lines": []}

    def word(self, frame: Any) -> int:
        if isinstance(frame, str) or len(frame) == 2:
            return super().word(frame)
        if frame not in self.words:
            name, file, line = frame
            self.tables["codes"].append({"first_line": 1, "filename": file, "qualname": name})
            word = python(len(self.tables["codes"]), 8 * line)
            symbol = {"process": 0, "frame": word, "depth": 0, "name": name, "full_name": "", "kind": int(Kind.PYTHON), "module": ""}
            self.tables["symbols"].append({**symbol, "file": file, "line": line, "offset": 0, "approximate": False})
            self.words[frame] = word
        return self.words[frame]

    def stack(self, *frames: Any) -> int:
        return super().stack(*frames)

    def work(self, called: float, begin: float, end: float, *frames: Any, name: str = "sgemm", **more: Any) -> None:
        """A kernel or copy: its launch was called at a moment, and it ran from `begin` to `end`."""
        self.now = round(called * US) - 10
        self.launch(*(frames or (MAIN,)), name=name, start_ns=round(begin * US), end_ns=round(end * US), **more)

    def layer_work(self, called: float, begin: float, end: float, *layers: str, name: str = "sgemm") -> None:
        self.now = round(called * US) - 10
        self.forward(*layers, name=name, start_ns=round(begin * US), end_ns=round(end * US))

    def waits(self, begin: float, end: float, *frames: Any, thread: int = 1) -> None:
        """The thread waits for the device."""
        launches = self.tables["launches"]
        begin_ns, end_ns = round(begin * US), round(end * US)
        row = {"thread": thread, "stack": self.stack(*(frames or (MAIN,))), "api": 2, "correlation": len(launches) + 1, "autograd": 1}
        launches.append({**row, "sequence": self.sequence, "begin_ns": begin_ns, "end_ns": end_ns})
        sync = {"kind": int(SyncKind.STREAM), "api": 2, "correlation": len(launches), "start_ns": begin_ns, "end_ns": end_ns}
        self.tables["syncs"].append(sync)

    def during(self, name: str, begin: float, end: float, thread: int = 1) -> None:
        """An automatic region: `data` or `optimizer`."""
        with self.region(name, 0xA, thread):
            pass
        self.tables["regions"][-1]["begin_ns"] = round(begin * US)
        self.tables["region_ends"][-1]["end_ns"] = round(end * US)

    def met(self, moment: float, *frames: Any, thread: int = 1, clock: int = 1, weight: int = 1) -> None:
        """A sample of a thread."""
        self.now = round(moment * US) - 10
        self.sample(*frames, thread=thread)
        self.tables["cpu_samples"][-1] |= {"clock": clock, "weight": weight, "period_ns": 5_000_000}

    def sampled(self, kernel: str, reasons: dict[str, int], line: int = 0, file: str = "/app/kernels.cu") -> None:
        """Samples of a kernel, at one instruction for each call."""
        functions, names = self.tables["gpu_functions"], self.tables["stall_reasons"]
        if not self.tables["gpu_windows"]:
            self.tables["gpu_windows"].append({"device": DEVICE, "begin_ns": 0, "end_ns": 1 << 50, "samples": 0})
        if kernel not in [row["name"] for row in functions]:
            functions.append({"cubin": 7, "name": kernel})
        function = 1 + [row["name"] for row in functions].index(kernel)
        offset = 16 * (1 + len(self.tables["gpu_samples"]))
        if line:
            at: Row = {"cubin": 7, "function": kernel, "offset": offset, "depth": 0}
            self.tables["gpu_lines"].append({**at, "name": kernel, "file": file, "line": line})
        for reason, count in reasons.items():
            if VENDOR + reason not in [row["name"] for row in names]:
                names.append({"name": VENDOR + reason, "index": len(names)})
            number = 1 + [row["name"] for row in names].index(VENDOR + reason)
            self.tables["gpu_samples"].append({"window": 1, "function": function, "offset": offset, "reason": number, "count": count})

    def profile(self, path: Path, meta: Meta | None = None, /, **more: list[Row]) -> Profile:
        tables = {**self.tables, **ran(*self.kernels), "copies": self.copies, "processes": [{"pid": 4711, "command": "python\0train.py"}]}
        return sealed(path / "p.aiflame", meta, **{name: rows for name, rows in {**tables, **more}.items() if rows})


class Counted(Story):
    """With hardware counters. Each kernel fills its stretch: the counts are its own."""

    def __init__(self) -> None:
        super().__init__()
        self.tables["gpu_counters"] = []

    def count(self, memory: float, tensor: float = 0.0, active: float = 1.0, warps: float = 0.5, device: str = DEVICE) -> None:
        """Shares of the peaks that the last kernel reached; a quarter of its bytes were written."""
        limits = peaks(device)
        assert limits is not None
        begin, end = self.kernels[-1]["start_ns"], self.kernels[-1]["end_ns"]
        cycles, moved = (end - begin) * MHZ / 1000, memory * limits.memory * (end - begin) / 1e9
        values = {DRAM[0]: 0.75 * moved, DRAM[1]: 0.25 * moved, CYCLES: cycles, TENSOR_CYCLES: tensor * cycles}
        values |= {ACTIVE_CYCLES: active * cycles, WARP_CYCLES: warps * WARPS_AT_ONCE * active * cycles}
        rows = [
            {"device": device, "metric": name, "begin_ns": begin, "end_ns": end, "value": round(value)} for name, value in values.items()
        ]
        self.tables["gpu_counters"] += rows


def train(story: Story, number: int, work: float = 900, idle: float = 100, *, wait: str = "") -> None:
    """A step of `idle` + `work` µs: idle first, in which the main thread waits for data or for the device."""
    begin = 10_000 * (number + 1) if wait == "" and work > 5000 else 1000 * (number + 1)
    if wait == "data":
        story.during("data", begin, begin + idle - 1)
    half = work / 2
    story.layer_work(begin + idle, begin + idle, begin + idle + half, "model", name="sgemm")
    story.now = round((begin + idle + 1) * US)
    story.backward()
    story.kernels[-1] |= {"start_ns": round((begin + idle + half) * US), "end_ns": round((begin + idle + work) * US), "name": "sgemm"}
    if wait == "sync":
        story.waits(begin + idle + 10, begin + idle + work + 2, ITEM)
    story.during("optimizer", begin + idle + work - 5, begin + idle + work - 4)


def cpu_step(story: Story, begin: float, samples: int, *frames: Any, apart: float = 10, lasts: float = 250_000) -> None:
    """A step of a program without a device, with samples of its CPU time that are `apart`."""
    story.now = round(begin * US)
    with story.called("model", True):
        for moment in range(samples):
            story.met(begin + apart * (moment + 1), *frames, clock=0)
    story.during("optimizer", begin + lasts - 2, begin + lasts - 1)


__all__ = ["DEVICE", "ITEM", "LOOP", "MAIN", "TRAIN", "US", "Counted", "Story", "cpu_step", "train"]
