"""`aiflame diff`: how it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stories import Story

from aiflame.cli.commands import run
from aiflame.cli.main import guarded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number, length in enumerate((100, 130), 1):
        story = Story()
        story.work(0, 0, length, name="sgemm")
        story.work(0, length, length + 50, name="softmax")
        story.sampled("sgemm", {"wait": length})
        story.work(0, length, length + 1, name="HOST_TO_DEVICE")
        story.profile(tmp_path / f"{number}")
        (tmp_path / f"{number}" / "p.aiflame").rename(tmp_path / f"{number}.aiflame")
    story = Story()
    story.met(1, ("main", "/app/other.py", 3), clock=0)
    story.profile(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def call(*arguments: str) -> int:
    try:
        return guarded(run, ["diff", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


def test_slower_functions_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("1.aiflame", "2.aiflame", "--by", "kernel") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["Before", "Now", "Difference", "Kernel"],
        ["100", "µs", "130", "µs", "+30", "µs", "+30.0%", "sgemm"],
    ]


def test_json_is_all_that_goes_to_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("1.aiflame", "2.aiflame", "--json", "-o", "d.svg") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["by"] for one in answer["differences"]] == ["kernel", "line"]
    assert "<svg" in (folder / "d.svg").read_text()


def test_the_flame_graph_of_the_difference_is_drawn_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("1.aiflame", "2.aiflame", "-o", "d.svg") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "d.svg"
    assert "2.aiflame compared with 1.aiflame" in (folder / "d.svg").read_text()


@pytest.mark.parametrize(("metric", "groupings"), [("gpu-stalls", ["kernel", "stall", "line"]), ("bytes", ["copy", "line"])])
def test_samples_and_bytes_are_compared_and_drawn_too(
    folder: Path, capsys: pytest.CaptureFixture[str], metric: str, groupings: list[str]
) -> None:
    assert call("1.aiflame", "2.aiflame", "--metric", metric, "--json", "--all", "-o", "d.svg") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(one["by"], one["metric"]) for one in answer["differences"]] == [(by, metric) for by in groupings]
    assert "2.aiflame compared with 1.aiflame" in (folder / "d.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("1.aiflame", "p.aiflame", "--metric", "gpu-time"), 1, "aiflame: the second profile has no gpu-time, only cpu-time"),
        (("1.aiflame", "2.aiflame", "--by", "copy"), 1, "aiflame: cannot compare gpu-time by 'copy': use kernel, op, layer"),
        (("1.aiflame", "2.aiflame", "--by", "rank"), 2, "aiflame: diff --by: 'rank' is none of kernel, op, layer"),
        ((), 2, "aiflame: diff needs two profiles: aiflame diff BASE NEW"),
        (("1.aiflame", "3.aiflame"), 1, "aiflame: 3.aiflame does not exist"),
        (("1.aiflame", "2.aiflame", "-o", "no/d.svg"), 1, "aiflame: cannot write no/d.svg: no such file or directory"),
        (("1.aiflame",), 1, "aiflame: compare with what? name a second profile"),
    ],
)
def test_a_wrong_call_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert call(*arguments) == status
    assert says in capsys.readouterr().err
