"""Traced calls of OpenMP runtimes: their number and duration match the program's own account."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from live import Process, build, build_for_llvms_openmp, processes, recorded

from aiflame.profile.schema.control_schema import Feature

TRACED = Feature.OPENMP | Feature.TRACE_OPENMP
GOMP = """
#include <unistd.h>
int main() {
  for (int turn = 0; turn < 7; turn++) {
#pragma omp parallel num_threads(2)
    usleep(turn == 3 ? 30000 : 0);
  }
}
"""


def calls(profile: Path) -> pl.DataFrame:
    (process,) = processes(profile)
    return named(process)


def named(process: Process) -> pl.DataFrame:
    names = process.table("call_names").select(row="id", function="name")
    rows = process.table("calls").rename({"name": "row"}).join(names, on="row").with_columns(took=pl.col("end_ns") - pl.col("begin_ns"))
    return rows.sort("begin_ns")


@pytest.fixture(scope="module")
def constructs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_for_llvms_openmp(Path(__file__).parent / "programs" / "omp_constructs.cpp", tmp_path_factory.mktemp("programs"))


def test_constructs_of_llvms_runtime_are_counted_on_their_threads(constructs: Path, tmp_path: Path) -> None:
    assert recorded([constructs], tmp_path / "p", features=TRACED, env={"OMP_DYNAMIC": "false"}).status == 0
    rows = calls(tmp_path / "p")
    counts = dict(rows.group_by("function").len().rows())
    assert counts["parallel"] == 5
    assert counts["loop"] == 10
    assert counts["single"] == 5
    assert rows.filter(function="parallel")["thread"].n_unique() == 1
    assert sorted(rows.filter(function="loop").group_by("thread").len()["len"]) == [5, 5]
    regions = rows.filter(function="parallel")
    within = rows.filter(pl.col("function") == "loop", pl.col("thread") == regions["thread"][0])
    for region, loop in zip(regions.iter_rows(named=True), within.iter_rows(named=True), strict=True):
        assert region["begin_ns"] <= loop["begin_ns"] <= loop["end_ns"] <= region["end_ns"]


@pytest.mark.timed(alone=True)
def test_a_thread_that_is_late_is_waited_for_at_the_barrier(constructs: Path, tmp_path: Path) -> None:
    recorded([constructs], tmp_path / "p", features=TRACED, env={"OMP_DYNAMIC": "false"})
    rows = calls(tmp_path / "p")
    slow = rows.filter(function="loop").group_by("thread").agg(pl.col("took").min()).sort("took")["thread"][1]
    assert (rows.filter(pl.col("function") == "loop", pl.col("thread") == slow)["took"] >= 20_000_000).all()
    waited = rows.filter(pl.col("function") == "barrier", pl.col("thread") != slow)["took"]
    assert (waited > 10_000_000).sum() == 5, "once in each region"


def test_regions_of_gccs_runtime_are_calls(tmp_path: Path) -> None:
    source = tmp_path / "seven.cpp"
    source.write_text(GOMP)
    assert recorded([build(source, tmp_path, "-fopenmp")], tmp_path / "p", features=TRACED).status == 0
    rows = calls(tmp_path / "p")
    assert rows["function"].to_list() == ["parallel"] * 7
    assert rows["thread"].n_unique() == 1
    assert rows["took"][3] >= 30_000_000


def test_without_the_feature_nothing_is_traced(constructs: Path, tmp_path: Path) -> None:
    recorded([constructs], tmp_path / "p", features=Feature.OPENMP)
    (process,) = processes(tmp_path / "p")
    assert process.table("calls").is_empty()
