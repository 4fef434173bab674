"""Traces of torch.profiler as profiles: compared with a reckoning over the file by itself, with the standard library."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aiflame

FOLDER = Path(__file__).parents[3] / "data" / "traces" / "kineto"
MORE = Path(os.environ.get("AIFLAME_TRACES", FOLDER), "kineto")
FILES = sorted([*FOLDER.glob("*.json.gz"), *(file for file in MORE.glob("*.json.gz") if file.stat().st_size < 50_000)])
OF_DEVICES = ("kernel", "gpu_memcpy", "gpu_memset")
OF_NO_THREAD = (*OF_DEVICES, "Trace", "gpu_user_annotation", "overhead", "cuda_sync")
OLD = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime", "Operator": "cpu_op"}
WAITS = re.compile(r"\w*(Stream|Event|Device|Ctx)Synchronize(_v\d+)?")
NAMED = ("ProfilerStep#", "Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#")


def events(file: Path) -> list[dict[str, Any]]:
    """The events with a duration, times in nanoseconds."""
    with gzip.open(file, "rt") as text:
        rows = json.load(text, parse_float=Decimal)["traceEvents"]
    calls = [row for row in rows if row.get("ph") == "X"]
    for row in calls:
        row["cat"] = OLD.get(row["cat"], row["cat"])
        row["begin"], row["took"] = (round(Decimal(row[name]) * 1000) for name in ("ts", "dur"))
        row["end"] = row["begin"] + row["took"]
    return calls


def of_threads(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The calls of each thread, outermost first; annotations are none."""
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in rows:
        annotation = row["cat"] == "user_annotation" or row["name"].startswith(NAMED)
        if row["cat"] not in OF_NO_THREAD and not annotation:
            threads.setdefault((row["pid"], row["tid"]), []).append(row)
    for calls in threads.values():
        yield sorted(calls, key=lambda row: (row["begin"], -row["end"]))


def shown(row: Mapping[str, Any]) -> str:
    """The name of a call as a stack has it."""
    name = str(row["name"])
    if row["cat"] == "python_function" and "): " in name and not name.startswith("<"):
        return name.partition("): ")[2]
    return re.sub(r" at 0x[0-9a-f]+(?=>$)", "", name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_kernels_and_copies_have_their_time_and_bytes(file: Path) -> None:
    profile = aiflame.open(file)
    time: Counter[str] = Counter()
    copied: Counter[int] = Counter()
    for row in events(file):
        if row["cat"] == "kernel":
            time[row["name"]] += row["took"]
        elif row["cat"] in OF_DEVICES:
            copied[row["took"]] += int(row["args"].get("bytes", 0))
    kernels = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
    time_by_name = kernels.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    assert dict(time_by_name.rows()) == dict(time)
    copies = profile.table("copies").with_columns(took=pl.col("end_ns") - pl.col("start_ns"))
    assert dict(copies.group_by("took").agg(pl.col("bytes").sum()).rows()) == dict(copied)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_threads_have_all_the_time_in_which_they_were_in_calls(file: Path) -> None:
    covered = 0
    for calls in of_threads(events(file)):
        last = 0
        for row in calls:
            covered += max(row["end"] - max(row["begin"], last), 0)
            last = max(last, row["end"])
    samples = aiflame.open(file).table("cpu_samples")
    assert int((samples["weight"].cast(pl.Int64) * samples["period_ns"]).sum()) == covered


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_launches_have_the_calls_around_them_as_stack(file: Path) -> None:
    rows = events(file)
    worked = {row["args"]["correlation"] for row in rows if row["cat"] in OF_DEVICES}
    expected: Counter[tuple[str, ...]] = Counter()
    for calls in of_threads(rows):
        for row in calls:
            works = row.get("args", {}).get("correlation") in worked or WAITS.fullmatch(row["name"])
            if row["cat"].endswith(("_runtime", "_driver")) and works:
                around = [shown(other) for other in calls if other["begin"] <= row["begin"] and other["end"] >= row["end"]]
                expected[tuple(name for name in around if not name.startswith("nn.Module: "))] += 1
    profile = aiflame.open(file)
    stacks = {(process, stack): (parent, frame) for process, stack, parent, frame in profile.table("stacks").rows()}
    symbols = profile.table("symbols").with_columns(pl.when(pl.col("full_name") == "").then("name").otherwise("full_name").alias("text"))
    text = {(process, frame): name for process, frame, name in symbols.select("process", "frame", "text").rows()}
    stacks_of_launches: Counter[tuple[str, ...]] = Counter()
    for process, stack in profile.table("launches").select("process", "stack").rows():
        names: list[str] = []
        while stack:
            stack, frame = stacks[process, stack]
            if (process, frame) in text:  # layers are no functions
                names.insert(0, text[process, frame])
        stacks_of_launches[tuple(names)] += 1
    assert stacks_of_launches == expected


def test_a_training_step_has_layers_phases_and_its_backward_pass() -> None:
    profile = aiflame.open(FOLDER / "torch2.13_modules.json.gz")
    layers = {name for (name,) in profile.tree("wall-time", by="layer").frames.select("name").rows()}
    assert {"Sequential", "Block.0", "Block.1", "Linear"} <= layers
    phases = set(profile.tree("wall-time", by="phase").frames["name"])
    assert {"Forward", "Backward", "Optimizer"} <= phases


def test_named_steps_are_steps() -> None:
    steps = aiflame.open(FOLDER / "torch2.6_steps.json.gz").tree("wall-time", by="step").frames["name"].to_list()
    assert {"Step.0", "Step.1"} <= set(steps)
