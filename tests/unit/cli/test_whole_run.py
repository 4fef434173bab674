"""Commands name their scope, and `--whole-run` shows the other one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from report_profiles import STEPS, training
from stories import MAIN, US, Story

from aiflame.profile.folder.meta import Clocks, Meta

SCOPE = f"Steps 1 to {STEPS - 1}: "


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(training(tmp_path_factory.mktemp("scope") / "p.aiflame").path)


def said(*words: str) -> str:
    called = run_aiflame(*words)
    assert called.status == 0, called.err
    return called.out


def document(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(said(*words, "--json"))
    return answer


@pytest.mark.parametrize("command", [["top"], ["top", "--by", "layer"], ["top", "--by", "step"], ["findings"]])
def test_a_command_says_its_scope_in_its_first_lines(trained: str, command: list[str]) -> None:
    name, *options = command
    assert SCOPE in "\n".join(said(name, trained, *options).splitlines()[:2])
    assert "Whole run: " in "\n".join(said(name, trained, *options, "--whole-run").splitlines()[:2])


def test_percentages_are_of_busy_time_and_idle_time_is_a_line_above(trained: str) -> None:
    lines = said("top", trained).splitlines()
    idle = next(at for at, line in enumerate(lines) if line.startswith("GPU idle "))
    assert idle < next(at for at, line in enumerate(lines) if "Kernel" in line)
    assert not [line for line in lines if "[GPU idle]" in line]
    rows = document("top", trained)["rows"]
    assert sum(row["self_percent"] for row in rows) == pytest.approx(100)
    assert not [line for line in said("top", trained, "--no-idle").splitlines() if "idle" in line]


def test_top_and_findings_have_one_scope(trained: str) -> None:
    for options in ([], ["--whole-run"]):
        assert document("top", trained, *options)["scope"] == document("findings", trained, *options)["scope"]


def test_steps_are_those_of_the_scope_beside_all_of_them_by_the_clock(trained: str) -> None:
    answer = document("top", trained, "--by", "step")
    assert [row["name"] for row in answer["rows"]] == [f"Step.{number}" for number in range(1, STEPS)]
    assert (answer["steps"][0]["steps"], answer["clock"]["count"]) == (STEPS - 1, STEPS)
    whole = document("top", trained, "--by", "step", "--whole-run")
    assert whole["steps"][0]["steps"] == STEPS


def test_a_metric_without_values_in_the_scope_is_noted(tmp_path: Path) -> None:
    path = str(training(tmp_path / "p.aiflame").path)  # its CPU samples lie before its steps
    answer = said("top", path, "--metric", "cpu-time")
    assert "There is no CPU time in these steps: --whole-run lists that of the whole run" in answer
    assert document("top", path, "--metric", "cpu-time")["rows"] == []
    assert document("top", path, "--metric", "cpu-time", "--whole-run")["rows"]


def test_steps_of_a_cpu_program_without_samples_are_counted_as_in_the_report(tmp_path: Path) -> None:
    story = Story()
    for number in range(8):
        story.now = 1000 * (number + 1) * US
        with story.called("model", True):
            pass
        story.during("optimizer", 1000 * (number + 1) + 10, 1000 * (number + 1) + 11)
    story.met(20_000, MAIN, clock=0)
    path = str(story.profile(tmp_path, Meta(started=Clocks(0, 0, 0), ended=Clocks(30_000 * US, 0, 0), complete=True)).path)
    answer = said("top", path, "--by", "step")
    assert "8 steps by the clock: " in answer
    assert "No CPU time fell into a step" in answer
    assert document("top", path, "--by", "step")["clock"]["count"] == 8
