"""Every view of stall samples gives the same number for one kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from profiles import Row, sealed
from report_profiles import with_symbols
from sampled_kernels import VENDOR, Sampled
from sampled_kernels import profile as sampled

from aiflame.analyze.device.stalls import stalls
from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.choice import kernels
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.store import Profile

DAMAGED = Sampled("k", [(0, "EXIT", (), {"drain": 2, "drain_not_issued": 7}), (16, "MOV R1, R2", (), {"wait": 5, "wait_not_issued": 3})])
SAMPLES, NOT_ISSUED = 7, 10
DROPPED = 100
"""Samples that the profile's one window dropped: `sampled_kernels.profile` writes them."""

_STALL = pl.col("name").is_in(["drain", "wait", "unknown"])
VIEWS: dict[str, Callable[[Profile], int]] = {
    "annotate, its instructions": lambda profile: annotate(profile, "k").count.samples,
    "annotate, its header": lambda profile: kernels(profile)[0].samples,
    "top --by kernel --metric gpu-stalls": lambda profile: _of_kernel(profile),
    "top --by stall": lambda profile: int(top(tree(profile, "gpu-stalls", detail="instruction"), "stall").filter(_STALL)["self"].sum()),
    "the table of stalls": lambda profile: int(stalls(profile)["samples"].sum()),
    "the summary": lambda profile: _of_summary(profile, "gpu-stalls") - DROPPED,
}


def _of_kernel(profile: Profile) -> int:
    return int(top(tree(profile, "gpu-stalls"), "kernel").filter(pl.col("name") == "k")["total"].sum())


def _of_summary(profile: Profile, metric: str) -> int:
    return next(one.total for one in summarize(profile, profile.meta).metrics if one.name == metric)


@pytest.mark.parametrize("view", VIEWS)
def test_samples_are_those_of_the_first_counter(tmp_path: Path, view: str) -> None:
    assert VIEWS[view](_damaged(tmp_path)) == SAMPLES


def test_samples_without_issue_are_those_of_the_second_counter(tmp_path: Path) -> None:
    one = _damaged(tmp_path)
    assert annotate(one, "k").count.not_issued == tree(one, "gpu-latency").total("gpu-latency") == NOT_ISSUED
    assert _of_summary(one, "gpu-latency") == NOT_ISSUED


@pytest.mark.parametrize("view", VIEWS)
def test_rows_that_stand_twice_count_once(tmp_path: Path, view: str) -> None:
    assert VIEWS[view](_with(tmp_path, twice=True)) == SAMPLES


@pytest.mark.parametrize("view", VIEWS)
def test_samples_whose_reason_was_lost_count_in_every_view(tmp_path: Path, view: str) -> None:
    assert VIEWS[view](_with(tmp_path, lost="wait")) == SAMPLES


def _damaged(folder: Path) -> Profile:
    return with_symbols(sampled(folder / "p", DAMAGED))


def _with(folder: Path, *, twice: bool = False, lost: str = "") -> Profile:
    """The same profile with its functions and reasons twice, or without a reason."""
    damaged = sampled(folder / "p", DAMAGED)
    tables: dict[str, list[Row]] = {name: damaged.table(name).to_dicts() for name in damaged.names()}
    if twice:
        tables |= {name: [*tables[name], *tables[name]] for name in ("stall_reasons", "gpu_functions")}
    tables["stall_reasons"] = [row for row in tables["stall_reasons"] if not lost or row["name"] != VENDOR + lost]
    return with_symbols(sealed(folder / "changed", **tables))
