"""The OpenCL layer against programs whose launches, bytes and times are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from recording import PROGRAMS, Recorder, time_under

from aiflame.api import Profile
from aiflame.profile.schema.enums import CopyKind

pytest_plugins = ["opencl_device"]

PROGRAM = PROGRAMS / "opencl_programs.py"


@dataclass(frozen=True)
class Recorded:
    truth: Any
    profile: Profile
    status: int

    def joined(self, table: str) -> pl.DataFrame:
        """The rows of `kernels` or `copies` with their launches, in the order of launching."""
        launches = self.profile.table("launches").rename({"id": "launch"})
        rows = self.profile.table(table).with_columns(pl.col("api").cast(pl.UInt32))
        if table == "kernels":
            shapes = self.profile.table("kernel_shapes").rename({"id": "shape"})
            rows = rows.join(shapes.drop("api"), on=["process", "shape"], how="inner", maintain_order="left")
        joined = rows.join(launches, on=["process", "api", "correlation"], how="inner", suffix="_launch")
        assert len(joined) == len(rows), "every row has its launch"
        return joined.sort("launch")


@pytest.fixture
def program(opencl_device: str, record: Recorder) -> Callable[[str], Recorded]:
    """Records one of the programs."""

    def recorded(name: str) -> Recorded:
        run = record(sys.executable, PROGRAM, name)
        assert run.status in (0, -9), run.stderr
        return Recorded(json.loads(run.stdout) if run.stdout else None, run.profile(), run.status)

    return recorded


Program = Callable[[str], Recorded]


def test_every_launch_is_a_row_with_its_kernel(program: Program, opencl_device: str) -> None:
    recorded = program("kernels")
    kernels = recorded.joined("kernels")
    assert kernels["name"].to_list() == ["spin"] * 20 + ["twice"] * 10
    assert len(recorded.profile.table("launches")) == 30
    sizes = kernels.select("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z").rows()
    assert sizes == [(64, 1, 1, 16, 1, 1)] * 20 + [(64, 2, 1, 0, 0, 0)] * 9 + [(1, 1, 1, 0, 0, 0)]
    assert set(kernels["device"]) == {opencl_device}
    assert kernels["stream"].n_unique() == 1


def test_every_copy_is_a_row_with_its_bytes(program: Program) -> None:
    recorded = program("copies")
    copies = recorded.joined("copies")
    moved = [(CopyKind(kind).name, moved) for kind, moved in copies.select("kind", "bytes").rows()]
    assert moved == [tuple(one) for one in recorded.truth]
    assert recorded.profile.table("kernels").is_empty()


def test_device_times_are_the_program_s_own_on_our_clock(program: Program) -> None:
    recorded = program("durations")
    kernels = recorded.joined("kernels")
    assert (kernels["end_ns"] - kernels["start_ns"]).to_list() == recorded.truth["took"]
    for row in kernels.iter_rows(named=True):
        # 20 µs: the error of converting between two clocks.
        assert row["begin_ns"] - 20_000 <= row["start_ns"] <= row["end_ns"]
        assert recorded.truth["before"] - 20_000 <= row["start_ns"] <= row["end_ns"] <= recorded.truth["after"] + 20_000


def test_device_time_lies_under_the_python_function_that_launched(program: Program) -> None:
    recorded = program("split")
    tree = recorded.profile.tree("gpu-time")
    under = {name: time_under(tree, f"split.<locals>.{name}", metric="gpu-time") for name in recorded.truth}
    assert under == recorded.truth
    assert min(under.values()) > 0 and under["heavy"] != under["light"]


def test_launches_of_many_threads_belong_to_their_threads(program: Program) -> None:
    recorded = program("threads")
    kernels = recorded.joined("kernels")
    assert len(kernels) == 400
    assert sorted(kernels.group_by("thread").len()["len"]) == [100] * 4
    assert sorted(kernels.group_by("stream").len()["len"]) == [50] * 4 + [200]
    assert kernels["correlation"].n_unique() == 400


def test_an_out_of_order_queue_is_recorded_as_it_ran(program: Program) -> None:
    recorded = program("out_of_order")
    kernels = recorded.joined("kernels")
    assert len(kernels) == 20
    chain = kernels.gather_every(2)
    assert (chain["end_ns"] - chain["start_ns"]).to_list() == recorded.truth
    assert (chain["start_ns"][1:] >= chain["end_ns"][:-1]).all(), "each waited for the one before"


def test_a_program_gets_the_same_answers_as_without_us(program: Program, opencl_device: str) -> None:
    alone = subprocess.run([sys.executable, str(PROGRAM), "visible"], capture_output=True, text=True, check=True, env=os.environ)
    recorded = program("visible")
    assert recorded.truth == json.loads(alone.stdout)
    assert recorded.truth["plain"]["stamp's error"] == -7, "CL_PROFILING_INFO_NOT_AVAILABLE"
    assert recorded.truth["profiled"]["stamp's error"] == 0
    assert len(recorded.profile.table("kernels")) == 4, "and yet all were timed"


def test_a_command_that_never_completes_is_a_launch_without_a_kernel(program: Program) -> None:
    recorded = program("never_completes")
    assert recorded.status == 0
    assert len(recorded.profile.table("launches")) == 2
    assert len(recorded.profile.table("kernels")) == 1


def test_kernels_of_a_killed_program_are_there(program: Program) -> None:
    recorded = program("no_wait")
    assert recorded.status == -9
    assert len(recorded.joined("kernels")) == 30


def test_layers_of_the_program_s_own_stay(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENCL_LAYERS", str(tmp_path / "not-there.so"))
    assert len(program("kernels").joined("kernels")) == 30
