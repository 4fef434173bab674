"""`--trace opencl`: calls by the program, as many as it made, and nothing changed for anybody else."""

from __future__ import annotations

import json
import sys

import polars as pl
from recording import PROGRAMS, Recorder

from aiflame.api import Profile
from aiflame.profile.schema.enums import CallBackend

pytest_plugins = ["opencl_device"]

PROGRAM = PROGRAMS / "opencl_calls.py"


def calls(profile: Profile) -> pl.DataFrame:
    names = profile.table("call_names").rename({"id": "row", "name": "function"})
    return profile.table("calls").rename({"name": "row"}).join(names, on=["process", "row"], how="inner").drop("row")


def test_there_are_as_many_calls_as_the_program_made(opencl_device: str, record: Recorder) -> None:
    run = record(sys.executable, PROGRAM, "mixed", options=("--trace", "opencl"))
    assert run.status == 0, run.stderr
    rows = calls(run.profile())
    counted = dict(rows.group_by("function").len().rows())
    assert {name: counted[name] for name in json.loads(run.stdout)} == json.loads(run.stdout)
    assert set(rows["backend"]) == {int(CallBackend.OPENCL)}
    failed = rows.filter(pl.col("failed") == 1)
    assert failed["function"].to_list() == ["clEnqueueReadBuffer"] * 3
    assert (failed["result"].cast(pl.Int32, wrap_numerical=True) < 0).all(), "OpenCL's errors are negative"
    moved = rows.filter(pl.col("function") == "clEnqueueWriteBuffer")
    assert moved["bytes"].to_list() == [64] * 7
    assert (rows["begin_ns"] <= rows["end_ns"]).all()
    assert rows["stack"].to_list() == [0] * len(rows), "stacks are on request"


def test_launches_have_the_stacks_that_they_have_without_tracing(opencl_device: str, record: Recorder) -> None:
    def launched(*options: str) -> list[str]:
        profile = record(sys.executable, PROGRAM, "mixed", options=options).profile()
        tree = profile.tree("gpu-time")
        return sorted({frame for frame in tree.frames["name"].to_list() if "aiflame" in frame or "mixed" in frame or "Enqueue" in frame})

    assert launched("--trace", "opencl", "--trace-stacks") == launched()


def test_with_stacks_each_call_has_the_one_it_was_made_from(opencl_device: str, record: Recorder) -> None:
    run = record(sys.executable, PROGRAM, "mixed", options=("--trace", "opencl", "--trace-stacks"))
    assert (calls(run.profile())["stack"] > 0).all()


def test_without_the_option_there_is_no_row(opencl_device: str, record: Recorder) -> None:
    assert record(sys.executable, PROGRAM, "mixed").profile().table("calls").is_empty()


def test_functions_of_a_newer_loader_go_through(record: Recorder) -> None:
    run = record(sys.executable, PROGRAM, "table", options=("--trace", "opencl"))
    assert run.status == 0, run.stderr
    printed = json.loads(run.stdout)
    assert printed == {"count": 160, "unknown_replaced": [], "sums": [105, 105], "results": [1 << 40 | 1, 1 << 40 | 2]}
    assert calls(run.profile())["function"].to_list() == ["clGetPlatformIDs"]
