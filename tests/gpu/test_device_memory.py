"""Memory of a real GPU: the blocks that `--gpu-memory` records are, at any moment, the bytes that torch counts itself.

Figures are written beside the outcomes (AIFLAME_GPU_RESULTS)."""

from __future__ import annotations

import json
import mmap
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from gpu_runs import PROGRAMS, GpuRun, Recorder
from recording import PYTHON, all_findings
from torch_programs import needs_torch

import aiflame
from aiflame.analyze.memory.expandable import expandable
from aiflame.analyze.memory.segments import memory_map
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.blocks import BlockKind, blocks
from aiflame.attribute.memory.live import peaks
from aiflame.attribute.memory.moments import Moment, windows
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.control_schema import CONTROL, Feature
from aiflame.profile.schema.records import layout

pytestmark = needs_torch

OPTIONS = ("--gpu-memory",)
WINDOW_S = 0.25
Keep = Callable[[str, object], None]


def of_torch(run: GpuRun) -> pl.DataFrame:
    return blocks(Analysis.of(run.profile.store)).filter(pl.col("kind") == int(BlockKind.OF_POOL))


def printed(run: GpuRun) -> dict[str, Any]:
    assert run.result.status == 0, run.run.stderr
    return dict(json.loads(run.result.stdout.splitlines()[-1]))


def bytes_by(run: GpuRun, grouping: str, metric: str = "gpu-bytes") -> dict[str, int]:
    of_tree = "code" if grouping == "function" else grouping
    return dict(top(tree(run.profile.store, metric, of_tree), grouping, metric).select("name", "self").rows())


@pytest.mark.parametrize("program", ["train", "generate", "compiled", "layers"])
def test_the_bytes_of_any_moment_are_torchs_own(record: Recorder, program: str, record_property: Keep) -> None:
    run = record("device_memory.py", program, options=OPTIONS, timeout=240)
    facts = printed(run)
    rows, held = of_torch(run), run.profile.table("pool_blocks").sort("time_ns")
    counted = []
    for moment, allocated, reserved in facts["moments"]:
        here = rows.filter((pl.col("begin_ns") <= moment) & (moment < pl.col("end_ns")))
        last = held.filter(pl.col("time_ns") <= moment)["held"]
        counted.append((int(here["bytes"].sum()) - allocated, int(last[-1]) - reserved if len(last) else 0))
    most = peaks(rows, windows(run.profile.store, Moment(), rows.select("process", "memory").unique()))["bytes"].to_list()
    own = bytes_by(run, "category")
    record_property(
        "figures", {"sizes": facts["sizes"], "most": [facts["most"], most], "categories": own, "off by": counted, "events": len(held)}
    )
    assert len(counted) > (1 if program == "layers" else 10) or program == "layers"
    assert not any(wrong for wrong, _ in counted), counted
    assert not any(wrong for _, wrong in counted), counted
    assert most == [facts["most"]]
    for category, size in facts["sizes"].items():
        if category in ("parameters", "optimizer state"):
            assert own[category] == pytest.approx(size, rel=0.02), category


def test_saved_activations_belong_to_their_layers(record: Recorder, record_property: Keep) -> None:
    run = record("device_memory.py", "layers", options=OPTIONS)
    facts = printed(run)["sizes"]
    of_layers = {name: held for name, held in bytes_by(run, "layer").items() if name.startswith("layers.")}
    of_category = bytes_by(run, "category")["activations saved for backward"]
    record_property("figures", {"sizes": facts, "layers": of_layers, "activations": of_category})
    assert of_category == pytest.approx(facts["saved at the peak"], rel=0.01)
    for number in range(3):
        assert of_layers[f"layers.{number}"] == facts["relu"], of_layers
        assert of_layers[f"layers.{number}.down"] == facts["down"], of_layers


def test_a_refused_request_is_explained(record: Recorder, record_property: Keep) -> None:
    run = record("device_memory.py", "oom", options=OPTIONS)
    facts = printed(run)
    (refused,) = run.profile.table("memory_refusals").rows(named=True)
    sentences = [one.sentence for one in all_findings(run.profile) if one.kind == "memory-refused"]
    at_refusal = bytes_by(run, "function", "gpu-bytes@oom")
    record_property("figures", {"sentences": sentences, "at the refusal": at_refusal})
    assert refused["bytes"] == 2 << 30
    assert len(sentences) == 1 and "asks_for_too_much()" in sentences[0], sentences
    assert facts["sizes"]["kept"] in at_refusal.values(), at_refusal


def test_the_estimate_for_expandable_segments_is_that_of_torch(record: Recorder, record_property: Keep) -> None:
    run = record("device_memory.py", "fragmented", options=OPTIONS)
    facts = printed(run)["sizes"]
    analysis = Analysis.of(run.profile.store)
    left = memory_map(analysis, Moment("end"))
    estimates = expandable(analysis)
    command = [PYTHON, str(PROGRAMS / "device_memory.py"), "fragmented"]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    really = json.loads(other.stdout.splitlines()[-1])["sizes"]["reserved"]
    record_property(
        "figures", {"reserved": facts["reserved"], "expandable": really, "estimates": [[one.peak, one.then] for one in estimates]}
    )
    assert left is not None and int(left.segments["bytes"].sum()) == facts["left"]
    assert [(one.peak, one.then) for one in estimates] == [(facts["reserved"], really)]


@pytest.mark.parametrize("workload", ["launch", "llama"])
def test_its_cost(workload: str, tmp_path: Path, record_property: Keep) -> None:
    """Steps of one process, with the feature switched on and off in its control page in turns: processes differ more than that costs."""
    path = tmp_path / "p.aiflame"
    command = [
        PYTHON,
        "-m",
        "aiflame.cli.main",
        "record",
        *OPTIONS,
        "--gpu-sampling",
        "off",
        "--gpu-counters",
        "off",
        "-q",
        "-o",
        str(path),
    ]
    program = [PYTHON, str(PROGRAMS / "device_memory.py"), workload]
    with subprocess.Popen([*command, "--", *program], stdout=subprocess.PIPE, text=True) as running:
        turns = switched(path, running)
        assert running.stdout is not None
        steps = np.array(json.loads(running.stdout.read())["steps"])
    assert running.returncode == 0
    medians = []
    for (begin, _), (end, _) in pairwise(turns):
        inside = (steps[:, 0] - steps[:, 1] > begin) & (steps[:, 0] < end)
        medians.append(float(np.median(steps[inside, 1])) if inside.sum() >= 5 else float("nan"))
    ratios = [
        medians[at] / ((medians[at - 1] + medians[at + 1]) / 2) for at in range(1, len(medians) - 1) if turns[at][1]
    ]  # fmt: skip
    ratios = sorted(ratio for ratio in ratios if ratio == ratio)
    events = aiflame.open(path).table("pool_blocks").height
    figures = {
        "windows": len(ratios),
        "ratio": statistics.median(ratios),
        "quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
    }
    record_property("figures", figures | {"events": events, "ms": float(np.median(steps[:, 1])) / 1e6})
    assert len(ratios) > 10
    # The aim is 1.02. An H200 has had 1.05 to 1.08 (launch) and 1.06 to 1.10 (llama), on a machine whose processor changes its speed.
    assert figures["ratio"] < 1.15, figures


def switched(path: Path, running: subprocess.Popen[str]) -> list[tuple[int, bool]]:
    """Since when the feature was on or off, until the program's end."""
    offset = {column.name: place for column, place in layout(CONTROL)[0]}["features"]
    while not (path / "control").exists():
        assert running.poll() is None
        time.sleep(0.05)
    turns: list[tuple[int, bool]] = []
    with (path / "control").open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        features = memoryview(page)[offset : offset + 8].cast("Q")
        both = features[0]
        # Its output is read only at its end: it fits into the pipe.
        while running.poll() is None and (path / "control").exists():
            on = not (turns and turns[-1][1])
            features[0] = both if on else both & ~int(Feature.GPU_MEMORY)
            turns.append((time.monotonic_ns(), on))
            time.sleep(WINDOW_S)
        features.release()
    return turns
