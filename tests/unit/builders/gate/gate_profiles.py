"""Recorded runs of a made training, for gates: two kernels a step, whose times are given, with noise between runs and between steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stories import US, Story

from aiflame.analyze.gate.run import Run, measure
from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.tables.store import Profile

MLP, ATTN = ("model", "model/layers.0", "model/layers.0.mlp"), ("model", "model/layers.0", "model/layers.0.attn")
CPU = "EPYC 9654"
Change = Callable[[Story], Any]


def ended(seconds: float = 1.0, **more: Any) -> Meta:
    """Metadata of a recording that its recorder saw end well."""
    clocks = {"started": Clocks(0, 0, 1), "ended": Clocks(round(seconds * 1e9), 0, 1)}
    return Meta(**{"version": "0.2.0", "complete": True, "exit_status": 0, "host": Host(cpu=CPU, cores=8), **clocks, **more})


def training(
    path: Path,
    seed: int,
    gemm: float = 100,
    softmax: float = 50,
    noise: float = 0.01,
    steps: int = 12,
    change: Change | None = None,
    **more: Any,
) -> Profile:
    """`gemm` in layer `mlp` and `softmax` in `attn` take about these times (µs); `more` replaces parts of its metadata."""
    chance = random.Random(seed)
    story, now = Story(), 1000.0
    run = {name: length * (1 + noise * chance.gauss(0, 1)) for name, length in (("sgemm", gemm), ("softmax", softmax))}
    for number in range(steps):
        for name, layers in (("sgemm", MLP), ("softmax", ATTN)):
            took = run[name] * (1 + 0.002 * chance.gauss(0, 1)) + (5000 if number == 0 else 0)
            story.layer_work(now, now, now + took, *layers, name=name)
            now += took
        story.now = round((now - 20) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round(now * US), "end_ns": round((now + 10) * US), "name": "backward_kernel"}
        now += 10
        story.during("optimizer", now - 15, now - 14)
    tables = (change(story) if change is not None else None) or {}
    return story.profile(path / f"{seed}", ended(**{"seconds": (now + 1000) / 1e6, **more}), **tables)


def group(path: Path, seeds: range, **of_training: Any) -> list[Run]:
    return [_measured(path, seed, **of_training) for seed in seeds]


_runs: dict[str, Run] = {}


def _measured(path: Path, seed: int, **of_training: Any) -> Run:
    """Equal runs are made and measured once, unless a function changes them."""
    key = repr((seed, sorted(of_training.items())))
    if key not in _runs or "change" in of_training:
        _runs[key] = measure(training(path, seed, **of_training), f"run {seed}")
    return _runs[key]
