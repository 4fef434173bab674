"""Timelines made for tests, without a profile."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.timeline.tables import Making, SliceKind, Timeline, TrackKind

ORIGIN = 5_000_000_000_000
MS = 1_000_000


def training(steps: int = 6, kernels: int = 40, slow_step: int = 3) -> Timeline:
    """A process with a thread and two streams: each step lasts 10 ms (the slow one 25 ms) and runs `kernels` kernels, one called and waited
    for after the other, and a copy on the second stream."""
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python train.py", number=4711)
    thread = making.track(TrackKind.THREAD, process, 0, "MainThread", thread=1, number=4711)
    regions = making.track(TrackKind.REGIONS, thread, 0, "MainThread: regions", thread=1)
    device = making.track(TrackKind.DEVICE, process, 0, "NVIDIA H200")
    first = making.track(TrackKind.STREAM, device, 0, "Stream 7", number=7)
    second = making.track(TrackKind.STREAM, device, 0, "Stream 14", number=14)
    facts = making.facts(
        pl.DataFrame(
            {
                "layer": ["layers.0.attn", "layers.0.mlp"],
                "stack": [["model.py:41 forward"], ["model.py:57 forward"]],
                "registers": [64, 128],
            }
        ),
        ["layer", "stack", "registers"],
    )
    rows: list[tuple[int, int, int, int, SliceKind, str, int, int, int, int]] = []
    at = ORIGIN
    flow = 1
    for step in range(steps):
        length = (25 if step == slow_step else 10) * MS
        rows.append((thread, at, at + length, 0, SliceKind.STEP, f"Step.{step}", 0, step, 0, 0))
        half = at + length // 2
        for begin, end, phase in ((at, half, "Forward"), (half, at + length, "Backward")):
            rows.append((thread, begin, end, 1, SliceKind.PHASE, phase, 0, step, 0, 0))
        rows.append((regions, at, at + length, 0, SliceKind.REGION, "epoch", 0, -1, 0, 0))
        pace = length // kernels
        for number in range(kernels):
            begin = at + number * pace
            name = "gemm_bf16" if number % 3 else "attention_fwd"
            rows.append((thread, begin, begin + pace // 8, 2, SliceKind.CALL, name, 0, step, flow, 1))
            rows.append((first, begin + 2000, begin + 2000 + pace // 2, 0, SliceKind.KERNEL, name, int(facts[number % 2]), step, flow, 0))
            flow += 1
        rows.append((second, at + MS, at + 2 * MS, 0, SliceKind.COPY, "[copy host→device]", 0, step, 0, 0))
        rows.append((thread, at + length - MS, at + length, 2, SliceKind.WAIT, "cudaDeviceSynchronize", 0, step, 0, 0))
        at += length + MS
    columns = ["track", "begin_ns", "end_ns", "depth", "kind", "name", "facts", "step", "flow", "flows"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    making.slices(table.with_columns(name=pl.Series(making.names(table["name"].to_list()))))
    return making.finish()


def stream(begin: np.ndarray, end: np.ndarray, names: list[str]) -> Timeline:
    """Kernels on one stream; names take turns."""
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python train.py", number=4711)
    device = making.track(TrackKind.DEVICE, process, 0, "NVIDIA H200")
    track = making.track(TrackKind.STREAM, device, 0, "Stream 7", number=7)
    name = making.names(names)[np.arange(len(begin)) % len(names)]
    making.slices(
        pl.DataFrame({"begin_ns": begin, "end_ns": end, "name": name}).with_columns(
            track=pl.lit(track), depth=pl.lit(0), kind=pl.lit(int(SliceKind.KERNEL))
        )
    )
    return making.finish()


def waiting() -> Timeline:
    """Two threads of 100 ms: one in `main`, which waits from 40 to 70 ms in `read`; one that waits all the time."""
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python train.py", number=4711)
    rows = [
        ("main thread", 0, 100, 0, SliceKind.FUNCTION, "main"),
        ("main thread", 40, 70, 1, SliceKind.FUNCTION, "read"),
        ("main thread", 40, 70, 2, SliceKind.WAITING, "[I/O]"),
        ("worker", 0, 100, 0, SliceKind.WAITING, "[sleep]"),
    ]
    for place, thread in enumerate(("main thread", "worker")):
        track = making.track(TrackKind.SAMPLES, process, place, thread)
        for name, begin, end, depth, kind, text in rows:
            if name == thread:
                span = {"begin_ns": ORIGIN + begin * MS, "end_ns": ORIGIN + end * MS, "name": int(making.names([text])[0])}
                making.slices(pl.DataFrame({**span, "track": track, "depth": depth, "kind": int(kind)}))
    return making.finish()
