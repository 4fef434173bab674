"""The scope: steady steps, the parts left out, and the same time in every view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stories import MAIN, US, Story

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.findings.listing import listing
from aiflame.analyze.overview.scope_line import Part, ScopeLine, scope_line
from aiflame.analyze.overview.scoped_tree import scoped_tree
from aiflame.analyze.scope import analysis_of, steady_steps
from aiflame.analyze.tables.all import tables
from aiflame.analyze.top import top
from aiflame.attribute.meaning.steady import Steady
from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.tables.store import Profile

META = Meta(started=Clocks(0, 0, 0), ended=Clocks(20_000 * US, 0, 0), complete=True)
TRIES = ("CachingAutotuner.benchmark_all_configs", "/v/lib/python3.12/site-packages/torch/_inductor/runtime/triton_heuristics.py", 9)


def steps(path: Path, *lengths: float, tried: int = 0, evaluated: bool = False) -> Profile:
    """A training program: in each step 100 µs of idle time, then the rest is work; steps follow each other from 1000 µs on."""
    story = Story()
    for number in range(tried):
        story.work(100 + 100 * number, 100 + 100 * number, 150 + 100 * number, MAIN, TRIES, name="trial")
    now = 1000.0
    for length in lengths:
        half = (length - 100) / 2
        story.layer_work(now + 100, now + 100, now + 100 + half, "model", name="sgemm")
        story.now = round((now + 101) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((now + 100 + half) * US), "end_ns": round((now + length) * US), "name": "sgemm"}
        story.during("optimizer", now + length - 5, now + length - 4)
        now += length
    if evaluated:
        story.work(now + 3000, now + 3000, now + 3500, name="evaluation")
    return story.profile(path, META)


def line_of(profile: Profile, *, whole_run: bool = False) -> ScopeLine:
    return scope_line(profile_analysis(analysis_of(profile, whole_run=whole_run)), META)


def steady_of(profile: Profile) -> Steady:
    return steady_steps(analysis_of(profile, whole_run=False))


def test_the_first_step_and_time_outside_steps_are_left_out_with_a_note(tmp_path: Path) -> None:
    profile = steps(tmp_path, 5000, *[1000] * 6, evaluated=True)
    line = line_of(profile)
    assert (line.first, line.last, line.steps, line.whole_run) == (1, 6, 6, False)
    assert line.text.startswith("Steps 1 to 6: 5.9 ms of 20 ms; left out: start-up 1.1 ms, first step 5 ms, after the last step ")
    assert sum(part.took_ns for part in line.left_out) + line.took_ns == line.duration_ns


def test_the_parts_add_up_to_the_whole_run(tmp_path: Path) -> None:
    line = line_of(steps(tmp_path, 5000, 4000, *[1000] * 6, evaluated=True))
    assert sum(part.took_ns for part in line.left_out) + line.took_ns == line.duration_ns == 20_000 * US


@pytest.mark.parametrize(
    ("lengths", "first"),
    [
        ([5000, 4000, *[1000] * 6], 2),
        ([5000, 2500, *[1000] * 6], 1),  # hardly longer
        ([5000, 4000, 4000, *[1000] * 6], 3),
        ([5000, 1000, 4000, *[1000] * 6], 1),  # a slow step among steady ones is a finding
        ([5000, 4000, 1000, 1000], 1),  # too few to know
    ],
)
def test_steps_that_still_warm_up_are_not_steady(tmp_path: Path, lengths: list[float], first: int) -> None:
    assert steady_of(steps(tmp_path, *lengths)).first == {0: first}


def test_all_views_speak_of_the_same_time(tmp_path: Path) -> None:
    profile = steps(tmp_path, 5000, *[1000] * 6, evaluated=True)
    for whole_run, took in ((False, 6 * 900 * US), (True, (4900 + 6 * 900) * US)):
        scoped = scoped_tree(profile, "gpu-time", "code", whole_run=whole_run)
        (row,) = top(scoped.tree, "kernel").filter(name="sgemm").select("self", "self_percent").rows()
        table = next(one for one in tables(analysis_of(profile, whole_run=whole_run)) if one.name == "kernels")
        (total, share) = table.rows.filter(short="sgemm").select("total", "share").row(0)
        assert row == pytest.approx((took, 100 * share), rel=1e-3)
        assert total == took
        assert ("evaluation" in table.rows["short"].to_list()) is whole_run
        assert ("evaluation" in top(scoped.tree, "kernel")["name"].to_list()) is whole_run
        assert "[GPU idle]" not in top(scoped.tree, "kernel")["name"].to_list()
        assert listing(profile, 3, whole_run=whole_run).summary.scope.whole_run is whole_run


def test_idle_time_stands_beside_the_table(tmp_path: Path) -> None:
    line = line_of(steps(tmp_path, 5000, *[1000] * 6))
    assert line.idle_text == "GPU idle 8.5% of 5.9 ms: 500 µs"


def test_trials_of_an_autotuner_are_a_part_of_the_launches_left_out(tmp_path: Path) -> None:
    line = line_of(steps(tmp_path, 5000, *[1000] * 6, tried=9))
    assert line.of_which == (Part("autotuning", 800 * US),)
    assert "(800 µs of it autotuning)" in line.text


def test_a_person_may_ask_for_the_whole_run(tmp_path: Path) -> None:
    line = line_of(steps(tmp_path, 5000, *[1000] * 6), whole_run=True)
    assert line.text == "Whole run: 20 ms; without --whole-run only its steady steps"


@pytest.mark.parametrize("lengths", [[], [5000]])
def test_without_steps_that_repeat_the_scope_is_the_whole_run(tmp_path: Path, lengths: list[float]) -> None:
    assert line_of(steps(tmp_path, *lengths, evaluated=True)).text == "Whole run: 20 ms"


def test_threads_and_processes_without_steps_lie_in_those_of_others_by_their_moment() -> None:
    of = Steady({0: 1}, np.array([100, 300]), np.array([200, 400]), np.array([0, 0]))
    process, step, time = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, -1, -1, -1, -1]), np.array([50, 150, 250, 250, 350, 400])
    assert of.of(process, step, time).tolist() == [False, True, False, False, True, False]


def test_a_program_without_a_device_needs_samples_in_its_steps(tmp_path: Path) -> None:
    def trained(path: Path, samples: int) -> Profile:
        story = Story()
        for number in range(8):
            now = 1000.0 * (number + 1)
            with story.called("model", True):
                story.now = round(now * US)
            for one in range(samples):
                story.met(now + 100 + one, MAIN, clock=0)
            story.during("optimizer", now + 900, now + 901)
        return story.profile(path, META)

    path = tmp_path / "few"
    path.mkdir()
    few = line_of(trained(path, 2))
    assert few.whole_run
    path = tmp_path / "many"
    path.mkdir()
    many = line_of(trained(path, 20))
    assert (few.whole_run, many.whole_run) == (True, False)
    assert "have too few samples" in few.text
