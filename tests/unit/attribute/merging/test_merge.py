"""Two recordings of a program, one with stalls and one with counters, that are known by construction, merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calling import run_aiflame
from profiles import Row
from stories import DEVICE, US, Counted

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.limits.groups import limits_of, utilization
from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.another_run import ELSEWHERE, LAUNCHES, VALUES
from aiflame.attribute.counters.counted import counts
from aiflame.attribute.counters.names import NOT_OURS
from aiflame.attribute.groupings import OF_TREES
from aiflame.attribute.limits.peaks import peaks
from aiflame.attribute.merging.merge import merge, sampled_and_counted
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import AnotherRun, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.store import Profile

COMMAND = Meta(command=("python", "train.py"))
METRICS = ("dram-bytes", "tensor", "sm-activity")
MEMORY = {"copying": (0.8, 0.4), "multiplying": (0.2, 0.1)}
"""Shares of the bandwidth of a kernel in the layers norm and mlp."""
LIMITS = peaks(DEVICE)
assert LIMITS is not None
BANDWIDTH = LIMITS.memory


def story(steps: int, *, slower: float = 1.0, more: str = "", layers: tuple[str, ...] = ("norm", "mlp")) -> Counted:
    """Steps of 1 ms: in each layer `copying` for 200 µs and `multiplying` for 100 µs, `slower` times as long where stalls are sampled."""
    program = Counted()
    for number in range(steps):
        at = 1000.0 * (number + 1)
        for place, layer in enumerate(layers):
            for name, took in (("copying", 200), ("multiplying", 100)):
                program.layer_work(at - 10 + place, at, at + took * slower, "model", f"model/{layer}", name=name)
                program.count(MEMORY[name][place % 2], 0.5 if name == "multiplying" else 0.0)
                at += took * slower
        if more:
            program.layer_work(at, at, at + 50, "model", "model/head", name=more)
            program.count(0.5)
        program.during("optimizer", 1000.0 * (number + 1) + 980, 1000.0 * (number + 1) + 985)
    return program


def stalls(path: Path, program: Counted, meta: Meta = COMMAND, **more: list[Row]) -> Profile:
    for name in ("copying", "multiplying"):
        program.sampled(name, {"long_scoreboard": 30, "barrier": 10})
    program.tables["gpu_counters"] = []
    return program.profile(path / "stalls", meta, **more)


def counters(path: Path, program: Counted, meta: Meta = COMMAND, **more: list[Row]) -> Profile:
    return program.profile(path / "counters", meta, **more)


def merged(path: Path, sampled: Profile, counted: Profile, *, force: bool = False) -> tuple[Profile, AnotherRun]:
    run = merge(*sampled_and_counted(sampled, counted), path / "m.aiflame", force=force)
    profile = open_profile(path / "m.aiflame")
    assert isinstance(profile, Profile)
    return profile, run


def total(profile: Profile, *metrics: str) -> int:
    rows = profile.table("gpu_counters")
    return int(rows.filter(pl.col("metric").is_in(metrics))["value"].sum())


def by_kernel_and_layer(profile: Profile, metric: str = "dram-bytes") -> dict[tuple[str, str], int]:
    values = counts(Analysis(profile)).values
    kernels = [row["name"] for row in _kernels(profile)]
    totals: dict[tuple[str, str], int] = {}
    each = values["dram-read-bytes"] + values["dram-write-bytes"] if metric == "dram-bytes" else values[metric]
    for number, name in enumerate(kernels):
        layer = ("norm", "mlp")[number // 2 % 2]
        totals[name, layer] = totals.get((name, layer), 0) + int(each[number])
    return totals


def _kernels(profile: Profile) -> list[dict[str, Any]]:
    shapes = dict(profile.table("kernel_shapes").select("id", "name").rows())
    return [{"name": shapes[shape]} for shape in profile.table("kernels")["shape"]]


def test_a_merged_profile_has_the_stalls_of_one_and_the_limits_of_the_other(tmp_path: Path) -> None:
    sampled, counted = stalls(tmp_path, story(8)), counters(tmp_path, story(8))
    assert "gpu-stalls" not in metrics(counted)
    assert "could-win" not in metrics(sampled)
    profile, run = merged(tmp_path, counted, sampled)  # in either order
    assert {"gpu-time", "gpu-stalls", *METRICS, "could-win"} <= set(metrics(profile))
    assert run.matched == {"place": 32, "layer": 0, "kernel": 0, "none": 0}
    assert tree(profile, "gpu-stalls").total("gpu-stalls") == tree(sampled, "gpu-stalls").total("gpu-stalls")
    for metric in (*METRICS, "could-win"):
        assert tree(profile, metric).total(metric) == tree(counted, metric).total(metric), metric
    assert by_kernel_and_layer(profile) == by_kernel_and_layer(counted)
    assert "counted in another run" in tree(profile, "could-win").metric("could-win").label
    assert tree(profile, "dram-bytes").total("dram-bytes") == total(counted, "dram-read-bytes", "dram-write-bytes")


@pytest.fixture(scope="module")
def unequal(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Of a profile of two recordings that did not do the same."""
    path = tmp_path_factory.mktemp("unequal")
    return Analysis(merged(path, stalls(path, story(5)), counters(path, story(7, more="other")))[0])


@pytest.mark.parametrize("metric", ["dram-bytes", "could-win"])
@pytest.mark.parametrize("by", [by for by in OF_TREES if by not in ("rank", "category")])
def test_every_grouping_has_the_same_total(unequal: Analysis, by: str, metric: str) -> None:
    assert tree(unequal, metric, by).total(metric) == tree(unequal, metric).total(metric)


def test_limits_are_the_bytes_there_in_the_time_here(tmp_path: Path) -> None:
    """Samples make kernels a quarter slower: their bytes are the same."""
    profile, _ = merged(tmp_path, stalls(tmp_path, story(8, slower=1.25)), counters(tmp_path, story(8)))
    analysis = profile_analysis(Analysis(profile))
    rows = {(row["layer"].rpartition(".")[2], row["short"]): row for row in limits_of(analysis, ["layer", "short"]).iter_rows(named=True)}
    assert rows["norm", "copying"]["limit_percent"] == pytest.approx(80 / 1.25, rel=1e-3)
    assert rows["mlp", "copying"]["limit_percent"] == pytest.approx(40 / 1.25, rel=1e-3)
    assert rows["norm", "multiplying"]["limit_percent"] == pytest.approx(50 / 1.25, rel=1e-3)
    assert rows["norm", "copying"]["bound_by"] == "memory"
    used = utilization(analysis)
    assert used is not None
    assert used.counted == pytest.approx(1)
    assert "counted in another run" in used.text


def test_a_run_with_fewer_steps_has_the_mean_of_each_launch(tmp_path: Path) -> None:
    sampled, counted = stalls(tmp_path, story(4)), counters(tmp_path, story(12))
    profile, run = merged(tmp_path, sampled, counted)
    assert (run.steps, run.steps_here) == (12, 4)
    whole = tree(profile, "dram-bytes")
    assert whole.total("dram-bytes") == pytest.approx(total(counted, "dram-read-bytes", "dram-write-bytes") / 3, abs=8)
    assert "(12 steps there, 4 here: means of each launch)" in profile.notes()[0]


def test_counts_of_no_kernel_here_stand_in_a_frame_of_their_own(tmp_path: Path) -> None:
    idle = [{"device": DEVICE, "metric": "dram-read-bytes", "begin_ns": 20_000 * US, "end_ns": 20_010 * US, "value": 1_000_000}]
    program = story(8, more="other")
    counted = counters(tmp_path, program, gpu_counters=[*program.tables["gpu_counters"], *idle])
    profile, run = merged(tmp_path, stalls(tmp_path, story(8)), counted)
    whole = tree(profile, "dram-bytes")
    frames = dict(zip(whole.frames["name"].gather(whole.frame), whole.values["dram-bytes"].tolist(), strict=True))
    assert frames[NOT_OURS] == 1_000_000
    assert frames[ELSEWHERE] == pytest.approx(8 * 0.5 * BANDWIDTH * 50e-6, rel=1e-6)
    assert run.alone == 8
    assert run.scale == 1
    assert whole.total("dram-bytes") == total(counted, "dram-read-bytes", "dram-write-bytes")
    assert without_idle(whole).total("dram-bytes") == whole.total("dram-bytes") - frames[NOT_OURS] - frames[ELSEWHERE]


def test_a_kernel_that_did_not_run_there_has_no_counts_and_no_limit(tmp_path: Path) -> None:
    profile, run = merged(tmp_path, stalls(tmp_path, story(8, more="other")), counters(tmp_path, story(8)))
    assert run.matched["none"] == 8
    assert run.unmatched_time == pytest.approx(50 / 650)
    rows = {row["short"]: row for row in limits_of(profile_analysis(Analysis(profile)), ["short"]).iter_rows(named=True)}
    assert (rows["other"]["counted"], rows["other"]["took"]) == (0, rows["other"]["launches"] * 50 * US)
    assert rows["copying"]["counted"] == rows["copying"]["took"]
    assert "8 have none, 8% of GPU time" in profile.notes()[0]
    used = utilization(profile_analysis(Analysis(profile)))
    assert used is not None
    assert "by the 92% of kernels' time with counters" in used.text


def test_a_layer_that_was_not_there_has_the_rate_of_its_kernels(tmp_path: Path) -> None:
    """A third layer: its kernels are known from the other layers, by the mean of these."""
    profile, run = merged(tmp_path, stalls(tmp_path, story(8, layers=("norm", "mlp", "late"))), counters(tmp_path, story(8)))
    assert run.matched == {"place": 32, "layer": 0, "kernel": 16, "none": 0}
    rows = limits_of(profile_analysis(Analysis(profile)), ["layer", "short"]).iter_rows(named=True)
    of = {(row["layer"].rpartition(".")[2], row["short"]): row for row in rows}
    assert of["late", "copying"]["limit_percent"] == pytest.approx((80 + 40) / 2, rel=1e-3)
    assert of["norm", "copying"]["limit_percent"] == pytest.approx(80, rel=1e-3)


def test_launches_that_were_not_counted_have_no_part_in_the_mean(tmp_path: Path) -> None:
    """Counters that begin when half of the steps are over: each launch still has the bytes of one."""
    program = story(8)
    late = [row for row in program.tables["gpu_counters"] if row["begin_ns"] > 4900 * US]
    whole = counters(tmp_path / "whole", story(8))
    profile, run = merged(tmp_path, stalls(tmp_path, story(8)), counters(tmp_path, program, gpu_counters=late))
    assert by_kernel_and_layer(profile) == pytest.approx(by_kernel_and_layer(whole), rel=1e-6)
    assert (run.matched["place"], run.alone, run.scale) == (32, 0, 2)


def test_launches_of_one_place_share_equally_whatever_they_took(tmp_path: Path) -> None:
    program = story(4)
    program.kernels[0]["end_ns"] -= 100 * US  # the first launch of `copying` in `norm`
    profile, _ = merged(tmp_path, stalls(tmp_path, program), counters(tmp_path, story(4)))
    values = counts(Analysis(profile)).values["dram-read-bytes"]
    assert values[0] == pytest.approx(values[4], abs=2)


def test_readers_of_the_report_have_the_tree_s_sums(tmp_path: Path) -> None:
    profile, _ = merged(tmp_path, stalls(tmp_path, story(8)), counters(tmp_path, story(8, more="other")))
    facts = device_sites(profile)
    for metric in (*METRICS, "could-win"):
        assert facts.leaves[metric].sum() == tree(profile, metric).total(metric)
    totals = {one.name: one.total for one in summarize(profile, profile.meta).metrics}
    assert totals["dram-bytes"] == tree(profile, "dram-bytes").total("dram-bytes")


def test_counters_are_not_drawn_on_the_timeline_of_another_run(tmp_path: Path) -> None:
    profile, _ = merged(tmp_path, stalls(tmp_path, story(4)), counters(tmp_path, story(4)))
    assert not profile.has("gpu_counters")
    assert profile.meta.another_run is not None
    assert profile.meta.another_run.profile == "p.aiflame"


@pytest.mark.parametrize(
    ("what", "meta", "more"),
    [
        ("their commands differ", Meta(command=("python", "other.py")), {}),
        ("their code differs (/lib/a.so)", COMMAND, {"modules": [{"path": "/lib/a.so", "build_id": b"2"}]}),
        ("their code differs (/app/a.py: run)", COMMAND, {"codes": [{"filename": "/app/a.py", "qualname": "run", "first_line": 9}]}),
        ("their code differs (/app/a.py)", COMMAND, {"sources": [{"path": "/app/a.py", "text": "pass"}]}),
    ],
)
def test_recordings_that_differ_are_merged_only_by_force(tmp_path: Path, what: str, meta: Meta, more: dict[str, list[Row]]) -> None:
    same: dict[str, list[Row]] = {
        "modules": [{"path": "/lib/a.so", "build_id": b"1"}],
        "codes": [{"filename": "/app/a.py", "qualname": "run", "first_line": 8}],
        "sources": [{"path": "/app/a.py", "text": "go"}],
    }
    first, second = story(4), story(4)
    for program, own in ((first, same), (second, {**same, **more})):
        # The codes of the story come first: stacks name them by their row.
        program.tables["codes"] += own["codes"]
        program.tables |= {name: rows for name, rows in own.items() if name != "codes"}
    sampled, counted = stalls(tmp_path, first), counters(tmp_path, second, meta)
    with pytest.raises(AiflameError, match=r"were recorded of different programs: .*: --force merges them nevertheless") as refused:
        merged(tmp_path, sampled, counted)
    assert what in str(refused.value)
    assert not (tmp_path / "m.aiflame").exists()
    profile, run = merged(tmp_path, sampled, counted, force=True)
    assert what in run.differences[0]
    assert what in profile.notes()[0]


def test_other_devices_are_refused(tmp_path: Path) -> None:
    program = story(4)
    for row in [*program.kernels, *program.tables["gpu_counters"]]:
        row["device"] = "NVIDIA H100 80GB HBM3"
    sampled, counted = stalls(tmp_path, story(4)), counters(tmp_path, program)
    with pytest.raises(AiflameError, match=r"their devices differ \(NVIDIA H200; NVIDIA H100 80GB HBM3\)"):
        merged(tmp_path, sampled, counted)
    profile, _ = merged(tmp_path, sampled, counted, force=True)
    assert tree(profile, "dram-bytes").total("dram-bytes") == tree(counted, "dram-bytes").total("dram-bytes")


def test_another_device_of_the_same_model_is_the_same(tmp_path: Path) -> None:
    one, other = story(4), story(4)
    for row in one.kernels:
        row["device"] = f"{DEVICE} [0]"
    for row in [*other.kernels, *other.tables["gpu_counters"]]:
        row["device"] = f"{DEVICE} [3]"
    one.sampled("copying", {"barrier": 1})
    for row in one.tables["gpu_windows"]:
        row["device"] = f"{DEVICE} [0]"
    profile, run = merged(tmp_path, stalls(tmp_path, one), counters(tmp_path, other))
    assert run.matched["place"] == 16
    assert tree(profile, "dram-bytes").total("dram-bytes") > 0


def test_what_cannot_be_merged_is_refused_with_one_line(tmp_path: Path) -> None:
    sampled, counted = stalls(tmp_path, story(4)), counters(tmp_path, story(4))
    second = counters(tmp_path / "second", story(4))
    plain = story(4)
    plain.tables["gpu_counters"] = []
    without = plain.profile(tmp_path / "without", COMMAND)
    for one, other, why in (
        (counted, second, "both have GPU counters"),
        (sampled, without, "neither .* has GPU counters: record one with --gpu-counters on"),
        (without, counted, "without/p.aiflame has no samples of GPU stalls"),
        (sampled, sampled, "cannot be merged with itself"),
    ):
        with pytest.raises(AiflameError, match=why):
            sampled_and_counted(one, other)
    profile, _ = merged(tmp_path, sampled, counted)
    with pytest.raises(AiflameError, match=r"is merged already, with p\.aiflame"):
        sampled_and_counted(profile, counted)
    with pytest.raises(AiflameError, match=r"m\.aiflame exists: choose another name with -o"):
        merge(sampled, counted, tmp_path / "m.aiflame")


def test_programs_without_a_kernel_in_common_are_refused(tmp_path: Path) -> None:
    program = story(4)
    for row in program.kernels:
        row["name"] = f"another_{row['name']}"
    with pytest.raises(AiflameError, match="no kernel of the one ran in the other"):
        merged(tmp_path, stalls(tmp_path, story(4)), counters(tmp_path, program))
    assert not (tmp_path / "m.aiflame").exists()


def test_a_damaged_table_is_an_error_or_loses_nothing(tmp_path: Path) -> None:
    profile, _ = merged(tmp_path, stalls(tmp_path, story(4)), counters(tmp_path, story(4)))
    launches, values = profile.table(LAUNCHES), profile.table(VALUES)
    whole = tree(profile, "dram-bytes").total("dram-bytes")
    profile.write_table(LAUNCHES, launches.with_columns(group=pl.lit(0, pl.UInt32)))
    assert tree(profile, "dram-bytes").total("dram-bytes") == whole, "it stands in a frame of its own"
    profile.write_table(LAUNCHES, launches.head(3))
    with pytest.raises(AiflameError, match="has 16 kernels and copies, and counts of another run for 3"):
        tree(profile, "dram-bytes")
    profile.write_table(LAUNCHES, launches)
    profile.write_table(VALUES, values.drop("covered"))
    with pytest.raises(AiflameError, match="merged_counters lacks covered"):
        tree(profile, "dram-bytes")
    profile.write_table(VALUES, values.with_columns(value=pl.lit(1 << 62), covered=pl.lit(float("nan"))))
    assert tree(profile, "dram-bytes").total("dram-bytes") > 0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    sampled, counted = stalls(tmp_path, story(8)), counters(tmp_path, story(8))
    said = run_aiflame("merge", str(counted.path), str(sampled.path))
    assert "32 of 32 kernels and copies have counts (32 by kernel, layer, phase and place in the step)" in said.out
    output = "p-merged.aiflame"
    assert f"-> {output}; next: aiflame top {output}" in said.out
    listed = run_aiflame("top", output).out
    assert "% limit" in listed
    assert "counted in another run" in listed
    assert "long_scoreboard" in run_aiflame("top", output, "--by", "stall").out
    assert aiflame.open(output).meta.command == ("python", "train.py")


def test_the_command_says_it_in_json(tmp_path: Path) -> None:
    sampled, counted = stalls(tmp_path, story(8)), counters(tmp_path, story(4))
    said = json.loads(run_aiflame("merge", str(counted.path), str(sampled.path), "-o", str(tmp_path / "m.aiflame"), "--json").out)
    assert (said["schema"], said["profile"]) == ("aiflame.merge/1", str(tmp_path / "m.aiflame"))
    assert (said["another_run"]["steps"], said["another_run"]["matched"]["place"]) == (4, 32)


def test_the_command_refuses_what_is_no_profile(tmp_path: Path) -> None:
    sampled = str(stalls(tmp_path, story(4)).path)
    (tmp_path / "text").write_text("text")
    for arguments, status, why in (
        ((sampled, str(tmp_path / "text")), 1, "is neither a profile nor"),
        ((sampled,), 2, "merge needs two profiles: aiflame merge A B"),
    ):
        refused = run_aiflame("merge", *arguments)
        assert refused.status == status
        assert why in refused.err
