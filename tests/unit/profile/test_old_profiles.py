"""Profiles that earlier versions sealed open, with the values that they had.

`golden/version-0.1.tar.gz` was written and sealed by aiflame 0.1.0 of 2026-11-21, from the rows of `spool_files.busy_process()`:
70 samples of 5 ms in two processes, and in each a kernel of 4 ns.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import aiflame
from aiflame.api import Profile
from aiflame.render.report import document

GOLDEN = Path(__file__).parents[1] / "golden" / "version-0.1.tar.gz"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return aiflame.open(tmp_path / "sealed.aiflame")


@pytest.mark.parametrize(("metric", "total"), [("cpu-time", 70 * 5_000_000), ("gpu-time", 2 * 4)])
@pytest.mark.parametrize("by", ["code", "layer", "step", "region"])
def test_trees_have_the_values_of_a_profile_of_version_0_1(profile: Profile, metric: str, total: int, by: str) -> None:
    values = profile.tree(metric, by=by)
    assert values.totals(metric)[0] == total
    assert ("gemm" in values.frames["name"]) == (metric == "gpu-time")


def test_samples_and_notes_of_version_0_1_are_read(profile: Profile) -> None:
    assert profile.sql("SELECT count(*), sum(period_ns) FROM cpu_samples").row(0) == (70, 70 * 5_000_000)
    assert profile.table("notes")["text"].to_list() == ["something was not possible"] * 2


def test_a_report_of_version_0_1_is_written(profile: Profile, tmp_path: Path) -> None:
    document.write(profile.store, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 100_000
