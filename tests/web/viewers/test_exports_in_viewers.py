"""Exports in the viewers that they are for: Perfetto's UI and speedscope, both the real ones, in a browser."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calling import run_aiflame
from exported_profiles import listed, training
from perfetto_ui import Perfetto, served

from aiflame.profile.tables.store import Profile

SPEEDSCOPE = Path(sys.prefix) / "speedscope" / "node_modules" / "speedscope" / "dist" / "release"
"""Where `make` puts it (scripts/test_tools.py)."""
NS = {"ns": 1, "µs": 1000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("viewers"))


def exported(profile: Profile, to: str, *options: str) -> Path:
    file = profile.path.with_name(f"{to}.json")
    said = run_aiflame("export", str(profile.path), "--to", to, "-o", str(file), *options)
    assert said.status == 0, said.err
    return file


@pytest.mark.parametrize("to", ["chrome", "kineto"])
def test_perfetto_has_every_kernel_copy_and_arrow(perfetto: Perfetto, profile: Profile, to: str) -> None:
    viewer = perfetto.open(exported(profile, to))
    viewer.wait_until_drawn()
    assert viewer.problems() == []
    kernels = profile.table("kernels").join(profile.table("kernel_shapes"), left_on="shape", right_on="id")
    took = kernels.group_by("name").agg(pl.len(), (pl.col("end_ns") - pl.col("start_ns")).sum())
    slices = viewer.sql("select name, count(*), sum(dur) from slice where category = 'kernel' group by 1 order by 1")
    assert slices == took.sort("name").rows()
    copies = profile.table("copies").height
    assert viewer.sql("select count(*) from slice where category = 'gpu_memcpy'") == [(copies,)]
    assert viewer.sql("select count(*) from flow") == [(len(kernels) + copies,)]
    assert viewer.errors == []


def test_speedscope_lists_the_functions_of_top(browser: Any, profile: Profile) -> None:
    if not (SPEEDSCOPE / "index.html").exists():
        pytest.skip("speedscope is not here (npm)")
    file = exported(profile, "speedscope", "--metric", "gpu-time", "--raw")
    problems: list[str] = []
    with served(SPEEDSCOPE, {"/the.json": file}) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{address}/#profileURL={address}/the.json")
        page.get_by_text("Sandwich").first.click()
        page.locator("td").first.wait_for()
        rows = [row.locator("td").all_inner_texts() for row in page.locator("tr").all()[1:]]
        assert page.title() == "GPU time, with idle time - speedscope"
        page.close()
    read = {name.strip(): (nanoseconds(own), nanoseconds(total)) for total, own, name in rows}
    expected = listed(profile, "gpu-time", "function")
    for name, (own, total, _) in expected.items():
        assert read[name] == pytest.approx((own, total), rel=1e-4), name
    assert set(read) - set(expected) == {"main thread", "train.py (4711)", "-"}
    assert problems == []


def nanoseconds(written: str) -> float:
    """A time as speedscope rounds it: `299.73ms (>99%)`."""
    time = re.match(r"([0-9.]+)(ns|µs|ms|s) ", written.strip())
    assert time is not None, written
    return float(time[1]) * NS[time[2]]
