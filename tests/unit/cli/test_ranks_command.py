"""`aiflame ranks`: its output, and the calls that it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from calling import run_aiflame
from made_ranks import MS, Made, job
from rich.console import Console
from spool_files import busy_process, ended_profile

from aiflame.analyze.ranks.comparison import ranks
from aiflame.analyze.ranks.fan_out import here
from aiflame.analyze.ranks.sources import sources
from aiflame.recorder.options import parse_size
from aiflame.render.terminal.ranks_table import print_ranks

SLEEPS = Made(sleeps={(2, 2): 20})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job(tmp_path_factory.mktemp("ranks") / "job.aiflame", SLEEPS)


def printed(path: Path, rows: int = 20, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_ranks(ranks(here(sources([path])[0], 1 << 30, processes=1)), rows, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_a_row_for_each_rank_and_says_who_is_late_and_why(path: Path) -> None:
    lines = printed(path).splitlines()
    assert lines[0].startswith("• Rank 2 comes last to 5 of 6 all-reduces, late by 20 ms each in Backward of layers.2: it slept")
    ranks_shown = [line.split()[0] for line in lines if line[:4].strip().isdigit() and "%" in line]
    assert ranks_shown == ["0", "1", "2", "3"]
    (late,) = [line for line in lines if line.startswith("rank 2")]
    assert late.split()[2:5] == ["5", "20", "ms"]
    assert "wait · Backward of layers.2" in late


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(path: Path, width: int) -> None:
    assert max(map(len, printed(path, width=width).splitlines())) <= width


def test_of_many_ranks_those_that_others_wait_for_are_shown(path: Path) -> None:
    shown = printed(path, rows=1)
    assert "1 of 4 ranks" in shown
    assert [line.split()[0] for line in shown.splitlines() if line[:4].strip().isdigit() and "%" in line] == ["2"]


def test_a_recording_that_nothing_has_read_yet_is_sealed_and_named_first(tmp_path: Path) -> None:
    path = ended_profile(tmp_path / "p.aiflame", busy_process())
    partial = here(sources([path])[0], 1 << 30, processes=1)
    assert partial.notes == ()
    assert len(partial.facts) == 1


def test_json_goes_to_stdout_alone(path: Path) -> None:
    result = run_aiflame("ranks", str(path), "--json", "--ranks", "0,2", "--memory", "1M")
    answer = json.loads(result.out)
    assert [row["rank"] for row in answer["rows"]] == [0, 2]
    assert answer["stragglers"][0]["rank"] == 2


def test_ranks_that_there_are_none_of_are_an_error(path: Path) -> None:
    result = run_aiflame("ranks", str(path), "--ranks", "7")
    assert result.status == 1
    assert "--ranks 7" in result.err


@pytest.mark.parametrize(("size", "bytes_"), [("2G", 2 << 30), ("500M", 500 << 20), ("1.5GiB", 3 << 29), ("4096", 4096)])
def test_sizes_are_read(size: str, bytes_: int) -> None:
    assert parse_size(size) == bytes_


@pytest.mark.parametrize("size", ["", "much", "0", "-1G", "2X"])
def test_a_text_that_is_no_size_is_refused(size: str, path: Path) -> None:
    result = run_aiflame("ranks", str(path), f"--memory={size}")
    assert (result.status, result.err) == (1, f"aiflame: --memory {size}: name a size like 2G or 500M\n")


def test_other_commands_list_and_draw_and_write_by_rank(path: Path, tmp_path: Path) -> None:
    """Rank 2 sleeps, all ranks compute alike."""
    top = json.loads(run_aiflame("top", str(path), "--by", "rank", "--json").out)
    assert [row["name"] for row in top["rows"]] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert {row["total"] for row in top["rows"]} == {top["total"] // 4}
    stacks, drawn = tmp_path / "stacks.txt", tmp_path / "flame.svg"
    assert run_aiflame("export", str(path), "--by", "rank", "-o", str(stacks)).status == 0
    assert {line.partition(";")[0] for line in stacks.read_text().splitlines()} == {f"rank {rank}" for rank in range(4)}
    assert run_aiflame("flame", str(path), "--by", "rank", "-o", str(drawn)).status == 0
    assert "rank 3" in drawn.read_text()


def test_a_rank_is_compared_with_a_rank(tmp_path: Path) -> None:
    """Rank 1 computes 30 ms more in each backward of layer 2."""
    path = job(tmp_path / "job.aiflame", Made(ranks=2, longer={(1, 2): 30}))
    given = ["diff", str(path), "--base-ranks", "0", "--ranks", "1", "--metric", "cpu-time", "--by", "phase", "--all", "--json"]
    result = json.loads(run_aiflame(*given).out)
    rows = {row["name"]: (row["base"] / MS, row["new"] / MS, row["beyond"]) for row in result["differences"][0]["rows"]}
    assert rows == {"Backward": (30, 60, True), "Forward": (30, 30, False), "Optimizer": (5, 5, False)}
