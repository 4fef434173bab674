"""Trees, lists and the report's facts by hardware counters."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from calling import run_aiflame
from device_work import GPU, IDLE, MS, UNDER, every_counter, kernel, lines, profile, stretches
from profiles import ran
from stories import DEVICE, US, Story

from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.names import COUNTED, NOT_OURS
from aiflame.attribute.groupings import OF_TREES
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.profile.tables.store import Profile
from aiflame.render.report.facts_block import facts_makers

TWO = [kernel(1, 1 * MS, 3 * MS, "a"), kernel(2, 4_500_000, 6_500_000, "b")]
ACTIVITY = {"a": 0.5, "b": 0.25, IDLE: 0.0}


def two(path: Path) -> Profile:
    return profile(path, **ran(*TWO), gpu_counters=every_counter(TWO, ACTIVITY, 8 * MS))


def training(path: Path) -> Profile:
    """12 steps of 1 ms: 400 µs of gemm in layers.0, 200 of gemm and 200 of norm in layers.1, looked at every 100 µs."""
    story = Story()
    for step in range(12):
        at = 1000.0 * step
        story.layer_work(at, at + 10, at + 410, "model", "model/layers.0", name="gemm")
        story.layer_work(at + 1, at + 410, at + 610, "model", "model/layers.1", name="gemm")
        story.layer_work(at + 2, at + 610, at + 810, "model", "model/layers.1", name="norm")
        story.now = round((at + 900) * US)
    counters = every_counter(story.kernels, {"gemm": 0.8, "norm": 0.1}, 12 * MS, 100_000, device=DEVICE)
    return story.profile(path, gpu_counters=counters)


def test_each_kernel_has_its_bytes_below_the_code_that_launched_it(tmp_path: Path) -> None:
    counters = [*stretches(TWO, {"a": 1000.0, "b": 300.0, IDLE: 5.0}, 8 * MS), *stretches(TWO, {"a": 50.0}, 8 * MS, "dram-write-bytes")]
    bytes_tree = tree(profile(tmp_path, **ran(*TWO), gpu_counters=counters), "dram-bytes")
    stacks = lines(bytes_tree, "dram-bytes")
    assert stacks == {
        f"{UNDER};-;a_[G]": pytest.approx(2 * MS * 1050, rel=0.01),
        f"{UNDER};py::run;-;b_[G]": pytest.approx(2 * MS * 300, rel=0.01),
        f"train.py (4711);{NOT_OURS}": pytest.approx(4 * MS * 5, rel=0.05),
    }
    assert sum(stacks.values()) == sum(row["value"] for row in counters)
    assert without_idle(bytes_tree).total("dram-bytes") == pytest.approx(2 * MS * 1350, rel=0.01)


def test_cycles_are_shown_as_time(tmp_path: Path) -> None:
    recorded = two(tmp_path)
    assert lines(tree(recorded, "tensor"), "tensor") == {
        f"{UNDER};-;a_[G]": pytest.approx(MS, rel=0.01),
        f"{UNDER};py::run;-;b_[G]": pytest.approx(MS // 2, rel=0.01),
    }
    assert tree(recorded, "sm-activity").metric("sm-activity").unit == "ns"


def test_a_label_says_how_much_is_estimated(tmp_path: Path) -> None:
    assert "divided" not in tree(two(tmp_path), "dram-bytes").metric("dram-bytes").label
    both = [kernel(1, 0, 5_500_000, "a"), kernel(2, 5_500_000, 10 * MS, "b")]
    recorded = profile(tmp_path / "both", **ran(*both), gpu_counters=every_counter(both, ACTIVITY, 10 * MS))
    assert ", 10% of it divided over kernels by their rates" in tree(recorded, "tensor").metric("tensor").label


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return Analysis(training(tmp_path_factory.mktemp("trained")))


@pytest.mark.parametrize("metric", ["dram-bytes", "tensor", "sm-activity"])
@pytest.mark.parametrize("by", [by for by in OF_TREES if by not in ("rank", "category")])
def test_every_grouping_has_the_same_total(trained: Analysis, by: str, metric: str) -> None:
    recorded, counted = trained, trained.table("gpu_counters")
    whole = tree(recorded, metric, by).total(metric)
    assert whole == tree(recorded, metric).total(metric)
    if metric == "dram-bytes":
        assert whole == counted.filter(counted["metric"].str.starts_with("dram"))["value"].sum()


OWN = "smsp__inst_executed.sum"


def own(path: Path) -> Profile:
    """A user's own counter: 2,000 instructions a µs of kernel `a`, 500 of `b`, 10 of idle time. And a name that no vendor has."""
    rows = [*stretches(TWO, {"a": 2.0, "b": 0.5, IDLE: 0.01}, 8 * MS, OWN), *stretches(TWO, {"a": 1.0}, 8 * MS, "<script>")]
    return profile(path, **ran(*TWO), gpu_counters=rows)


def test_a_user_s_own_counter_is_a_metric_divided_over_kernels(tmp_path: Path) -> None:
    recorded = own(tmp_path)
    analysis = Analysis(recorded)
    assert metrics(analysis) == ["gpu-time", OWN]
    whole = tree(analysis, OWN)
    assert lines(whole, OWN) == {
        f"{UNDER};-;a_[G]": pytest.approx(4 * MS, rel=0.02),
        f"{UNDER};py::run;-;b_[G]": pytest.approx(MS, rel=0.02),
        f"train.py (4711);{NOT_OURS}": pytest.approx(4 * MS * 0.01, rel=0.2),
    }
    assert whole.total(OWN) == sum(row["value"] for row in recorded.table("gpu_counters").filter(metric=OWN).to_dicts())
    assert (whole.metric(OWN).unit, whole.metric(OWN).label.partition(",")[0]) == ("counts", OWN)
    for by in ("layer", "step", "family", "phase"):
        assert tree(analysis, OWN, by).total(OWN) == whole.total(OWN), by


def test_a_user_s_own_counter_is_in_the_report_and_in_lists(tmp_path: Path) -> None:
    recorded = own(tmp_path)
    facts = device_sites(recorded)
    assert [metric.name for metric in facts.metrics] == ["gpu-time", OWN]
    assert facts.leaves[OWN].sum() == tree(recorded, OWN).total(OWN)
    assert facts.moments_of[OWN] == "gpu-time"
    assert {one.name: one.total for one in summarize(recorded, recorded.meta).metrics}[OWN] == tree(recorded, OWN).total(OWN)
    listed = run_aiflame("top", str(recorded.path), "--metric", OWN, "--by", "kernel", "--json")
    rows = {row["name"]: row["self"] for row in json.loads(listed.out)["rows"]}
    assert rows["a"] == pytest.approx(4 * MS, rel=0.02)
    assert rows["b"] == pytest.approx(MS, rel=0.02)


def test_a_counter_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    recorded = str(own(tmp_path).path)
    for name, status, why in (
        ("lts__t_sectors.sum", 1, f"this profile has no lts__t_sectors.sum, only gpu-time, {OWN}: for lts__t_sectors.sum, record with"
         " --gpu-counters lts__t_sectors.sum"),
        ("<script>", 2, "'<script>' is none of cpu-time"),
        ("dram-byte", 2, "'dram-byte' is not known: did you mean dram-bytes"),
    ):  # fmt: skip
        refused = run_aiflame("top", recorded, "--metric", name)
        assert refused.status == status, refused.err
        assert why in refused.err


def test_the_metrics_that_were_counted(tmp_path: Path) -> None:
    assert [name for name in metrics(two(tmp_path)) if name in COUNTED] == ["dram-bytes", "tensor", "sm-activity"]
    rows = stretches(TWO, {"a": 1.0}, 8 * MS, "tensor-cycles")
    alone = profile(tmp_path / "alone", **ran(*TWO), gpu_counters=rows)
    assert metrics(alone) == ["gpu-time"]  # the cycles that elapsed are not known


@pytest.mark.parametrize("metric", COUNTED)
def test_a_profile_without_counters_says_how_to_record_them(tmp_path: Path, metric: str) -> None:
    with pytest.raises(AiflameError, match=f"for {metric}, record with --gpu-counters on"):
        tree(profile(tmp_path, **ran(*TWO)), metric)


def test_a_program_without_kernels_has_counts_of_nobody(tmp_path: Path) -> None:
    recorded = profile(tmp_path, gpu_counters=stretches([], {IDLE: 3.0}, 5 * MS, "l2-bytes"))
    assert lines(tree(recorded, "l2-bytes"), "l2-bytes") == {f"train.py (4711);{NOT_OURS}": 15 * MS}


def test_the_facts_of_a_report_have_the_tree_s_sums(tmp_path: Path) -> None:
    recorded = training(tmp_path)
    facts = device_sites(recorded)
    assert [metric.name for metric in facts.metrics] == ["gpu-time", "dram-bytes", "tensor", "sm-activity", "could-win"]
    for metric in ("dram-bytes", "tensor", "sm-activity", "could-win"):
        assert facts.leaves[metric].sum() == tree(recorded, metric).total(metric)
    assert facts_makers(recorded)["device"]()


def test_leaves_of_a_report_have_the_limits_of_the_tree(tmp_path: Path) -> None:
    recorded = training(tmp_path)
    facts, whole = device_sites(recorded), tree(recorded, "gpu-time")
    for name in ("limits-counted", "limits-limit", "limits-by_memory"):
        assert facts.leaves[name].sum() == whole.total(name)
    assert 0 < whole.total("limits-limit") < whole.total("limits-counted")
    assert "limits-counted" not in device_sites(profile(tmp_path / "plain", **ran(*TWO))).leaves.columns


def test_a_report_without_kernels_has_no_devices(tmp_path: Path) -> None:
    assert "device" not in facts_makers(profile(tmp_path, gpu_counters=stretches([], {IDLE: 3.0}, 5 * MS)))


def test_the_summary_has_the_tree_s_sums(tmp_path: Path) -> None:
    recorded = training(tmp_path)
    sums = {one.name: (one.total, one.unit) for one in summarize(recorded, recorded.meta).metrics if one.name in COUNTED}
    assert sums == {name: (tree(recorded, name).total(name), METRICS[name].unit) for name in ("dram-bytes", "tensor", "sm-activity")}


# The commands


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "120")
    return str(training(tmp_path).path)


@pytest.mark.parametrize("by", ["kernel", "layer", "step", "phase", "function", "line"])
def test_top_by_bytes_of_memory(recorded: str, by: str) -> None:
    run = run_aiflame("top", recorded, "--metric", "dram-bytes", "--by", by, "--whole-run", "--json")
    if by == "line":
        assert (run.status, "no source line is known" in run.err) == (1, True)
        return
    document = json.loads(run.out)
    whole = 12 * MS * (0.6 * 0.8 + 0.2 * 0.1) * 3000
    assert (document["unit"], document["total"]) == ("bytes", pytest.approx(whole, rel=0.02))
    assert sum(row["self"] for row in document["rows"]) == document["total"]


def test_top_says_how_busy_each_kernel_kept_the_gpu(recorded: str) -> None:
    run = run_aiflame("top", recorded, "--by", "kernel", "--json")
    rows = {row["name"]: row for row in json.loads(run.out)["rows"]}
    assert rows["gemm"]["dram_rate"] == pytest.approx(2.4e12, rel=0.02)
    assert rows["gemm"]["tensor"] == pytest.approx(0.8, rel=0.02)
    assert rows["gemm"]["sm_active"] == pytest.approx(0.8, rel=0.02)
    assert rows["gemm"]["occupancy"] == pytest.approx(24 / 1.5 / 64, rel=0.02)
    assert rows["norm"]["tensor"] == pytest.approx(0.1, rel=0.05)


def test_top_has_columns_of_them_in_a_wide_terminal(recorded: str) -> None:
    said = run_aiflame("top", recorded, "--by", "layer", "--each").out
    first, second = (next(line for line in said.splitlines() if f"layers.{layer}" in line) for layer in (0, 1))
    assert ("2,400 GB/s" in first, "80%" in first, "1,350 GB/s" in second, "45%" in second) == (True, True, True, True)


def test_other_lists_have_no_such_columns(recorded: str) -> None:
    for arguments in (("--by", "function"), ("--focus", "gemm", "--by", "kernel")):
        assert "dram_bytes" not in run_aiflame("top", recorded, *arguments, "--json").out


def test_a_flame_graph_of_bytes(recorded: str, tmp_path: Path) -> None:
    run = run_aiflame("flame", recorded, "--metric", "dram-bytes", "-o", str(tmp_path / "f.svg"))
    assert run.status == 0, run.err
    assert "bytes read from and written to the GPU's memory" in html.unescape((tmp_path / "f.svg").read_text())


def test_top_without_counters_says_how_to_record_them(tmp_path: Path) -> None:
    path = str(profile(tmp_path, **ran(*TWO)).path)
    run = run_aiflame("top", path, "--metric", "tensor")
    assert (run.status, "record with --gpu-counters on" in run.err) == (1, True)


def test_names_of_counters_are_harmless_in_a_terminal(tmp_path: Path) -> None:
    rows = stretches(TWO, {"a": 5.0}, 8 * MS, "\x1b[31mharm\x07\u202e", device=GPU)
    path = str(profile(tmp_path, **ran(*TWO), gpu_counters=rows).path)
    for arguments in (("top",), ("top", "--json"), ("timeline", "-o", str(tmp_path / "t.pftrace"))):
        run = run_aiflame(arguments[0], path, *arguments[1:])
        assert (run.status, "\x1b" in run.out + run.err) == (0, False), run.err
