"""Commands name their scope, and `--whole-run` shows the other one."""

from __future__ import annotations

import json
import re
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


def svg(out: Path) -> str:
    return re.sub(r"\s+", " ", out.read_text())


def drawn(trained: str, out: Path, *options: str) -> tuple[dict[str, Any], str]:
    document: dict[str, Any] = json.loads(said("flame", trained, "-o", str(out), "--json", *options))
    return document, svg(out)


def test_a_flame_graph_is_of_the_scope_and_says_so(trained: str, tmp_path: Path) -> None:
    out = tmp_path / "flame.svg"
    for options, scope in (([], SCOPE), (["--whole-run"], "Whole run: ")):
        called = run_aiflame("flame", trained, "-o", str(out), *options)
        assert (called.status, called.out) == (0, f"{out}\n")
        assert called.err.startswith(scope)
        assert (f"GPU time in steps 1 to {STEPS - 1}" in svg(out)) == (not options)
        top = document("top", trained, "--no-idle", *options)
        facts, picture = drawn(trained, out, "--no-idle", *options)
        assert (facts["scope"], facts["total"]) == (top["scope"], top["total"])
        assert "[GPU idle]" not in picture


def test_idle_time_is_drawn_in_the_whole_run_and_told_of_steps(trained: str, tmp_path: Path) -> None:
    out = tmp_path / "flame.svg"
    assert "[GPU idle]" in drawn(trained, out, "--whole-run")[1]
    assert "[GPU idle]" not in drawn(trained, out)[1]
    assert "\nGPU idle " in run_aiflame("flame", trained, "-o", str(out)).err
    assert "\nGPU idle " not in run_aiflame("flame", trained, "-o", str(out), "--no-idle").err


def test_a_flame_graph_of_nothing_names_the_switch(trained: str, tmp_path: Path) -> None:
    """Its CPU samples lie before its steps."""
    out = tmp_path / "flame.svg"
    options = ("flame", trained, "--metric", "cpu-time", "-o", str(out))
    called = run_aiflame(*options)
    assert called.status != 0
    assert "--whole-run draws that of the whole run" in called.err
    assert not out.exists()
    assert run_aiflame(*options, "--whole-run").status == 0
    called = run_aiflame("flame", trained, "--focus", "nothing at all", "-o", str(out))
    assert "or --whole-run: only steps were searched" in called.err


def test_a_difference_is_of_steps_where_both_profiles_have_some(trained: str, tmp_path: Path) -> None:
    out = tmp_path / "flame.svg"
    both = drawn(trained, out, "--baseline", trained)
    assert f"p.aiflame in steps 1 to {STEPS - 1} compared with p.aiflame in steps 1 to {STEPS - 1}" in both[1]
    story = Story()
    story.work(0, 0, 900, MAIN)
    without = story.profile(tmp_path, Meta(started=Clocks(0, 0, 0), ended=Clocks(1_000 * US, 0, 0), complete=True)).path
    one = drawn(trained, out, "--baseline", str(without))
    assert "p.aiflame compared with p.aiflame" in one[1]
    assert one[0]["total"] == document("flame", trained, "--whole-run", "-o", str(out))["total"]


def stepping(path: Path, *, devices: bool) -> str:
    """Eight steps of a millisecond; the first is warm-up. `setup.py` runs before them, `step.py` in all of them."""
    story = Story()
    story.met(500, ("load", "/app/setup.py", 3), clock=0)
    for number in range(8):
        begin = 1000 * (number + 1)
        if devices:
            story.layer_work(begin + 100, begin + 100, begin + 500, "model", name="trial" if number == 0 else "sgemm")
            story.now = (begin + 101) * US
            story.backward()
            story.kernels[-1] |= {"start_ns": (begin + 500) * US, "end_ns": (begin + 900) * US, "name": "sgemm"}
        else:
            story.now = begin * US
            with story.called("model", True):
                for moment in range(20):
                    story.met(begin + 10 + 10 * moment, ("step", "/app/step.py", 4 if number else 9), clock=0)
        story.during("optimizer", begin + 905, begin + 906)
    if devices:
        story.sampled("sgemm", {"wait": 30})
    return str(story.profile(path, Meta(started=Clocks(0, 0, 0), ended=Clocks(30_000 * US, 0, 0), complete=True)).path)


def test_lines_have_the_time_of_the_scope(tmp_path: Path) -> None:
    """The first step ran another line."""
    path = stepping(tmp_path, devices=False)
    for options, lines in (([], {4: 100}), (["--whole-run"], {4: 100 * 140 / 161, 9: 100 * 20 / 161})):
        assert said("annotate", path, "step.py", *options).startswith("Whole run: " if options else "Steps 1 to 7: ")
        answer = document("annotate", path, "step.py", *options)
        assert {row["line"]: row["self_percent"] for row in answer["lines"]} == pytest.approx(lines, abs=0.001)
        assert answer["scope"] == document("top", path, *options)["scope"]
    called = run_aiflame("annotate", path, "setup.py")
    assert called.status == 1
    assert "/app/setup.py took no CPU time in steps 1 to 7: --whole-run has that of the whole run" in called.err
    assert "CPU time: 5 ms " in said("annotate", path, "setup.py", "--whole-run")


def test_a_kernel_has_the_launches_of_the_scope_and_all_of_its_samples(tmp_path: Path) -> None:
    """Of stall samples nobody knows the step."""
    path = stepping(tmp_path, devices=True)
    for options, launches, first in (([], 14, "Steps 1 to 7: "), (["--whole-run"], 15, "Whole run: ")):
        text = said("annotate", path, "sgemm", *options)
        assert text.startswith(first)
        assert ("the whole run has its stall samples, which come in windows, and its shapes" in " ".join(text.split())) == (not options)
        kernel = document("annotate", path, "sgemm", *options)["kernel"]
        assert (kernel["launches"], kernel["gpu_time_ns"], kernel["samples"]) == (launches, launches * 400 * US, 30)
        assert kernel["gpu_time_percent"] == pytest.approx(100 if not options else 100 * 15 / 16, abs=0.01)
    assert "none in these steps: --whole-run has all" in said("annotate", path, "trial")
    assert "1 in 400 µs of GPU time" in said("annotate", path, "trial", "--whole-run")
