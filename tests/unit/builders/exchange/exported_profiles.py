"""Profiles to export: a training program with CPU samples, copies and regions; and the figures of a profile to compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calling import run_aiflame
from stories import LOOP, MAIN, Story

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import LISTS
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import import_to
from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.tables.interface import OpenedProfile, Tables
from aiflame.profile.tables.store import Profile

META = Meta(
    version="1.2",
    command=("python", "train.py"),
    host=Host("box", "EPYC", 64, "6.1.0", "3.12.1"),
    started=Clocks(0, 0, 1_700_000_000_000_000_000),
    ended=Clocks(5_000_000_000, 5_000_000_000, 0),
    degraded=("a note",),
    complete=True,
)
STEPS = 4


def training(path: Path, name: str = "sgemm") -> Profile:
    """Four steps of 100 ms: a copy of 4 KB to the device, `sgemm` in two layers and their backward pass, with samples of all kinds."""
    story = Story()
    for step in range(STEPS):
        begin = 100_000.0 * (step + 1)
        copied = {"kind": int(CopyKind.HOST_TO_DEVICE), "bytes": 4096, "device": "NVIDIA H200", "api": 2, "stream": 7}
        story.work(begin, begin + 5, begin + 35, LOOP, name=name)
        row = story.kernels.pop()
        moved = {key: row[key] for key in ("correlation", "start_ns", "end_ns")}
        story.copies.append({**moved, **copied})
        story.layer_work(begin + 40, begin + 45, begin + 75 + step, "model", "model/layers.0", "model/layers.0.attn", name=name)
        story.layer_work(begin + 80, begin + 85, begin + 95, "model", "model/layers.1", name="softmax")
        story.now = round((begin + 100) * 1000)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((begin + 110) * 1000), "end_ns": round((begin + 140) * 1000), "name": "softmax"}
        for moment in range(6):
            story.met(begin + 20_000 + 5_000 * moment, MAIN, "c_work", clock=0)
            story.met(begin + 20_000 + 5_000 * moment, MAIN, "c_work" if moment % 2 else "c_rest", clock=1)
        story.during("optimizer", begin + 60_000, begin + 61_000)
    story.sampled(name, {"wait": 40, "barrier": 20}, line=5)
    story.sampled("softmax", {"wait": 30}, line=7)
    return story.profile(path, META)


def listed(profile: Tables, metric: str, by: str) -> dict[str, tuple[Any, ...]]:
    """The rows of a list: own value, total, launches."""
    of = tree(profile, metric, by if LISTS[by].grouped else "code")
    return {row["name"]: (row["self"], row["total"], row.get("launches")) for row in top(of, by, metric).to_dicts()}


def figures(profile: Tables, metric: str, *groupings: str) -> dict[str, object]:
    """The rows of several lists; of one that is empty or cannot be made, nothing."""
    analysis = profile if isinstance(profile, Analysis) else Analysis(profile)
    return {by: _listed(analysis, metric, by) for by in groupings}


def _listed(profile: Tables, metric: str, by: str) -> object:
    try:
        return listed(profile, metric, by) or None
    except AiflameError:
        return None


def through_kineto(profile: Profile, folder: Path) -> OpenedProfile:
    """The same profile, from a trace that torch.profiler would have written."""
    said = run_aiflame("export", str(profile.path), "--to", "kineto", "-o", str(folder / "trace.json"))
    assert said.status == 0, said.err
    import_to(folder / "trace.json", folder / "imported.aiflame")
    return aiflame.open(folder / "imported.aiflame").store
