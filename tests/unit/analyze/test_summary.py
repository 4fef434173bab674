"""The summary at the top of a report: work that ran, how busy the devices were, phases; its totals are those of the trees."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from small_program import SYMBOLS
from stories import DEVICE, MAIN, US, Story

from aiflame.analyze.overview.summary import MOST_PARTS, Summary, summarize
from aiflame.analyze.scope import analysis_of
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.trees.build import tree
from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.tables.store import Profile

META = Meta(
    version="1.2",
    command=("python", "train.py", "--name", "a b"),
    host=Host("box", "EPYC", 64, "6.1.0", "3.12.1"),
    started=Clocks(1000, 1000, 1_700_000_000_000_000_000),
    ended=Clocks(5_000_001_000, 5_000_001_000, 0),
    exit_status=0,
    degraded=("no perf",),
    complete=True,
)


def training(path: Path, meta: Meta | None = None) -> Profile:
    """Five steps of 100 µs, the fourth of 300; 40 µs of each are forward in `attn`, 20 backward; a copy before all."""
    story = Story()
    story.work(0, 0, 10, MAIN, name="HOST_TO_DEVICE")
    begin = 1000.0
    for length in (100, 100, 100, 300, 100):
        story.layer_work(begin, begin + 10, begin + 50, "model", "model/layers.0", "model/layers.0.attn", name="sgemm")
        story.now = round((begin + 60) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((begin + 60) * US), "end_ns": round((begin + 80) * US), "name": "softmax"}
        story.during("optimizer", begin + 82, begin + 83)
        begin += length
    for moment in range(10):
        story.met(moment + 20, MAIN, clock=moment % 2)
    story.sampled("sgemm", {"selected": 5, "barrier": 7, "barrier_not_issued": 3})
    return story.profile(path, meta, notes=[{"text": "a note"}, {"text": "a note"}])


def summary(path: Path, meta: Meta = META) -> Summary:
    profile = training(path, meta)
    return summarize(profile, profile.meta)


def test_the_run_has_its_command_host_and_time(tmp_path: Path) -> None:
    overview = summary(tmp_path)
    assert (overview.command, overview.exit_status, overview.complete) == ("python train.py --name 'a b'", 0, True)
    assert (overview.started, overview.duration_ns) == ("2023-11-14T22:13:20+00:00", 5_000_000_000)
    assert (overview.host, overview.cpu, overview.cores, overview.system, overview.aiflame) == ("box", "EPYC", 64, "6.1.0", "1.2")
    assert [(program.name, program.pid) for program in overview.programs] == [("train.py", 4711)]
    assert (overview.processes, overview.threads, overview.devices) == (1, 1, (DEVICE,))
    assert overview.notes == ("no perf", "a note")


def test_without_meta_it_reports_the_tables_alone(tmp_path: Path) -> None:
    overview = summary(tmp_path, Meta())
    assert (overview.command, overview.started, overview.host) == ("", "", "")
    assert overview.duration_ns == 1680 * US  # from the beginning of the process to the last kernel's end


def test_totals_are_those_of_the_trees(tmp_path: Path) -> None:
    profile = training(tmp_path)
    totals = {metric.name: metric.total for metric in summarize(profile, META).metrics}
    assert totals == {name: without_idle(tree(profile, name)).total(name) for name in totals}
    assert set(totals) == {"cpu-time", "wall-time", "gpu-time", "gpu-stalls", "gpu-latency", "bytes"}


def test_phases_and_layers_are_shares_of_the_metric(tmp_path: Path) -> None:
    of_all = summarize(analysis_of(training(tmp_path, META), whole_run=True), META)
    assert of_all.metric == "gpu-time"
    whole = 5 * 60 + 10
    expected: list[Any] = [
        ("Forward", 200 * US, pytest.approx(200 / whole)),
        ("Backward", 100 * US, pytest.approx(100 / whole)),
        ("Other", 10 * US, pytest.approx(10 / whole)),
    ]
    assert [(part.name, part.value, part.share) for part in of_all.phases] == expected
    assert [(part.name, part.value) for part in of_all.layers] == [("layers.0.attn", 300 * US)]
    assert of_all.layers[0].share == pytest.approx(300 / whole)


def test_phases_and_layers_are_those_of_the_scope(tmp_path: Path) -> None:
    overview = summary(tmp_path)
    assert [(part.name, part.value) for part in overview.phases] == [("Forward", 160 * US), ("Backward", 80 * US)]
    assert [(part.name, part.value, part.share) for part in overview.layers] == [("layers.0.attn", 240 * US, 1.0)]


def test_steps_and_the_slowest_of_them(tmp_path: Path) -> None:
    steps = summary(tmp_path).steps
    assert steps is not None
    assert (steps.count, steps.median_ns, steps.min_ns, steps.max_ns) == (5, 100 * US, 70 * US, 300 * US)
    assert (steps.slowest, steps.slowest_ns) == (3, 300 * US)


def test_the_first_step_is_slowest_only_where_it_is_the_only_one(tmp_path: Path) -> None:
    def slowest(path: Path, lengths: list[int]) -> int:
        story, begin = Story(), 1000.0
        for length in lengths:
            story.layer_work(begin, begin, begin + length - 10, "model")
            story.now = round(begin * US)
            story.backward()
            story.kernels[-1] |= {"start_ns": round((begin + length - 10) * US), "end_ns": round((begin + length) * US)}
            story.during("optimizer", begin + 1, begin + 2)
            begin += length
        profile = story.profile(path)
        steps = summarize(profile, META).steps
        assert steps is not None
        return steps.slowest

    assert slowest(tmp_path / "several", [900, 100, 300, 100]) == 2
    assert slowest(tmp_path / "one", [900]) == 0


def test_a_program_without_a_device_goes_by_its_cpu_time(tmp_path: Path) -> None:
    story = Story()
    for moment in range(8):
        story.met(moment, *((MAIN,) if moment < 6 else ()), clock=0)
    for row in story.tables["cpu_samples"][6:]:
        row["stack"] = 0
    profile = story.profile(tmp_path)
    overview = summarize(profile, META)
    assert (overview.metric, overview.occupancy, overview.steps, overview.layers) == ("cpu-time", (), None, ())
    assert overview.unattributed == pytest.approx(0.25)
    assert [(part.name, part.share) for part in overview.phases] == [("Other", 1.0)]


def test_work_whose_launch_is_not_known_is_unattributed(tmp_path: Path) -> None:
    story = Story()
    story.work(0, 0, 30)
    story.work(1, 30, 40)
    story.kernels[-1]["correlation"] = 77
    assert summarize(story.profile(tmp_path), META).unattributed == pytest.approx(0.25)


def test_a_profile_of_nothing_has_a_summary(tmp_path: Path) -> None:
    overview = summarize(Story().profile(tmp_path, symbols=SYMBOLS), Meta())
    assert (overview.metric, overview.metrics, overview.phases, overview.duration_ns, overview.unattributed) == ("", (), (), 0, 0.0)


def test_many_programs_and_layers_are_cut(tmp_path: Path) -> None:
    story = Story()
    for number in range(MOST_PARTS + 5):
        story.layer_work(number, 10 * number, 10 * number + 5, "model", f"model/part{number}")
    overview = summarize(story.profile(tmp_path), META)
    assert len(overview.layers) == MOST_PARTS


def test_it_is_plain_json(tmp_path: Path) -> None:
    profile = training(tmp_path)
    document = json.loads(json.dumps(asdict(summarize(profile, META))))
    assert document["occupancy"][0]["busy_ns"] == 300 * US
