"""Groups of kernels against the limits of their device, from a program whose counters are known by construction."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import US, Counted

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.limits.groups import limits_of, limits_of_steps, utilization
from aiflame.analyze.scope import analysis_of
from aiflame.analyze.tables.all import tables


def analysis(path: Path, *, counters: bool = True) -> ProfileAnalysis:
    """Steps of 1 ms: 400 µs at 80% of the memory's bandwidth, 300 µs at 50% of the tensor cores' rate, and 300 µs idle."""
    story = Counted()
    for number in range(8):
        begin = 1000 * (number + 1)
        story.layer_work(begin - 10, begin, begin + 400, "model", "model/norm", name="copying")
        if counters:
            story.count(memory=0.8, tensor=0.1)
        story.layer_work(begin, begin + 400, begin + 700, "model", "model/mlp", name="multiplying")
        if counters:
            story.count(memory=0.3, tensor=0.5)
        story.during("optimizer", begin + 690, begin + 695)
    return profile_analysis(analysis_of(story.profile(path), whole_run=False))


def test_each_group_has_the_sums_of_the_steps_in_the_scope(tmp_path: Path) -> None:
    rows = limits_of(analysis(tmp_path), ["layer"])
    steps = max(rows["launches"].to_list())
    of = {row["layer"].rpartition(".")[2]: row for row in rows.iter_rows(named=True)}
    assert steps >= 6
    assert of["norm"]["limit"] == pytest.approx(320 * US * steps, rel=1e-3)
    assert of["norm"]["could_win"] == pytest.approx(80 * US * steps, rel=1e-3)
    assert (round(of["norm"]["limit_percent"]), of["norm"]["bound_by"]) == (80, "memory")
    assert (round(of["mlp"]["limit_percent"]), of["mlp"]["bound_by"]) == (50, "")
    assert of["norm"]["dram"] == pytest.approx(0.8 * 4.8e12 * 400e-6 * steps, rel=1e-3)


def test_kernels_and_lines_add_up_to_the_same(tmp_path: Path) -> None:
    of = analysis(tmp_path)
    sums = {tuple(by): limits_of(of, by)["could_win"].sum() for by in (["layer"], ["name", "short"], ["op"], ["file", "line"])}
    assert len(set(sums.values())) == 1


def test_each_step_has_the_limit_of_its_kernels(tmp_path: Path) -> None:
    rows = limits_of_steps(analysis(tmp_path))
    assert len(rows) == 8
    assert rows["counted"].unique().to_list() == [700 * US]
    assert rows["limit"].to_numpy() == pytest.approx((320 + 150) * US, rel=1e-3)


def test_utilization_is_of_the_whole_time_of_steps(tmp_path: Path) -> None:
    used = utilization(analysis(tmp_path))
    assert used is not None
    step = 1 / (6 + 0.7) * 7  # of seven steps the last one ends with its work
    assert used.tensor == pytest.approx((0.4 * 0.1 + 0.3 * 0.5) * step, abs=1e-3)
    assert used.memory == pytest.approx((0.4 * 0.8 + 0.3 * 0.3) * step, abs=1e-3)
    assert used.limit == pytest.approx((0.4 * 0.8 + 0.3 * 0.5) * step, abs=1e-3)
    assert used.counted == pytest.approx(1)


def test_without_counters_there_is_none(tmp_path: Path) -> None:
    of = analysis(tmp_path, counters=False)
    assert utilization(of) is None
    assert limits_of(of, ["layer"])["limit_percent"].to_list() == [None, None]


def test_tables_have_the_share_of_the_limit_and_the_time_that_could_be_won(tmp_path: Path) -> None:
    by_name = {table.name: table for table in tables(analysis(tmp_path).profile)}
    kernels = {row["short"]: row for row in by_name["kernels"].rows.iter_rows(named=True)}
    assert (round(kernels["copying"]["of_limit"], 2), kernels["copying"]["bound_by"]) == (0.8, "memory")
    for name in ("kernels", "layers", "ops", "steps"):
        of = by_name[name]
        assert {"of_limit", "could_win"} <= {column.name for column in of.columns}
        assert of.rows["could_win"].null_count() == 0
    assert by_name["steps"].rows["of_limit"].to_numpy() == pytest.approx(470 / 700, rel=1e-3)


def test_tables_without_counters_have_no_such_columns(tmp_path: Path) -> None:
    assert "of_limit" not in {column.name for table in tables(analysis(tmp_path, counters=False).profile) for column in table.columns}
