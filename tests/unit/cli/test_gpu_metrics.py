"""Time, samples and bytes of GPUs in every command that takes a metric: all report the same amounts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stories import MAIN, Story

from aiflame.cli.commands import run as run_command
from aiflame.cli.main import guarded

AMOUNTS = {"gpu-time": 160_000, "gpu-stalls": 40, "bytes": 5000}
"""The story's amounts, in ns, samples and bytes."""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command on the story's profile, and returns its output."""
    story = Story()
    story.work(0, 0, 100, MAIN, ("much", "/app/train.py", 11), name="sgemm")
    story.work(0, 100, 150, MAIN, ("little", "/app/train.py", 12), name="softmax")
    story.work(0, 150, 160, MAIN, ("fetch", "/app/train.py", 13), name="HOST_TO_DEVICE")
    (copy,) = story.copies
    copy["bytes"] = AMOUNTS["bytes"]
    story.sampled("sgemm", {"long_scoreboard": 25, "wait": 5}, line=7)
    story.sampled("softmax", {"barrier": 10}, line=9)
    story.profile(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> str:
        try:
            status = guarded(run_command, [*arguments])
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        assert (status, err) == (0, "Whole run: 160 µs\n" if arguments[0] == "flame" else ""), arguments
        return out

    return run


def top(call: Callable[..., str], metric: str, by: str) -> dict[str, int]:
    answer: dict[str, Any] = json.loads(call("top", "--metric", metric, "--by", by, "--json", "--no-idle"))
    assert answer["metric"] == metric
    return {row["name"]: row["self"] for row in answer["rows"] if row["self"]}


def test_kernels_and_copies_by_each_metric(call: Callable[..., str]) -> None:
    assert top(call, "gpu-time", "kernel") == {"sgemm": 100_000, "softmax": 50_000, "[copy host→device]": 10_000}
    assert top(call, "gpu-stalls", "kernel") == {"sgemm": 30, "softmax": 10}
    assert top(call, "bytes", "kernel") == {"[copy host→device]": 5000}


def test_lines_in_kernels_by_their_samples(call: Callable[..., str]) -> None:
    assert top(call, "gpu-stalls", "line") == {"kernels.cu:7": 30, "kernels.cu:9": 10}


@pytest.mark.parametrize("metric", AMOUNTS)
def test_exports_have_all_of_it(call: Callable[..., str], metric: str) -> None:
    collapsed = call("export", "--metric", metric, "--no-idle").splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in collapsed) == AMOUNTS[metric]
    assert all(";py::train;" in line and ";-;" in line for line in collapsed)
    (profile,) = json.loads(call("export", "--metric", metric, "--no-idle", "--to", "speedscope"))["profiles"]
    assert sum(profile["weights"]) == AMOUNTS[metric]


@pytest.mark.parametrize("metric", AMOUNTS)
def test_a_flame_graph_of_each_is_drawn(call: Callable[..., str], metric: str) -> None:
    assert call("flame", "--metric", metric, "--no-idle", "-o", "f.svg") == "f.svg\n"
    drawn = Path("f.svg").read_text()
    assert (">sgemm<" in drawn, ">long_scoreboard<" in drawn, ">[copy host→device]<" in drawn) == (
        metric != "bytes",
        metric == "gpu-stalls",
        metric == "bytes",  # of time it has a narrow frame
    )
