"""`aiflame annotate`: how it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from called_lines import PROGRAM
from called_lines import profile as called
from report_profiles import with_symbols
from sampled_kernels import Sampled, line, profile

from aiflame.cli.commands import run
from aiflame.cli.main import guarded

KERNEL = Sampled("gemm", [(16 * at, f"NOP {at}", line(4), {"wait": 1 + 99 * (at == 3)}) for at in range(8)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_symbols(profile(tmp_path / "run.aiflame", KERNEL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def call(*arguments: str) -> int:
    try:
        return guarded(run, ["annotate", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("arguments", [("gemm",), ("run.aiflame", "gemm"), ("run.aiflame/", "GEM"), ("--sass", "gemm"), ("^g.*m$",)])
def test_the_profile_may_be_left_out(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert call(*arguments) == 0
    assert capsys.readouterr().out.startswith("Whole run: 1 ms\ngemm\n")


def test_json_is_all_that_goes_to_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("gemm", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["instructions"]) == 8


def test_instructions_are_folded_until_all_are_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("gemm", "--least", "5")
    folded = capsys.readouterr().out
    call("gemm", "--least", "0")
    whole = capsys.readouterr().out
    assert (folded.count("NOP"), whole.count("NOP")) == (1, 8)
    assert "--least 0 shows all" in folded
    assert "--least" not in whole


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CPU program, without a kernel."""
    called(tmp_path, sources=[{"path": PROGRAM, "text": "\n".join(f"line {number}" for number in range(1, 31))}])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize("name", ["prog.py", "/app/prog.py", "./prog.py", "main"])
def test_a_source_file_has_the_cpu_time_of_its_lines(program: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert call(name) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["20.0%", "20.0%", "████", "3", "line", "3"] in rows
    assert ["80.0%", "░░░░░░░░░░░░░░░░", "5", "line", "5"] in rows
    assert ["20", "line", "20"] not in rows
    assert call(name, "--least", "0") == 0
    assert ["20", "line", "20"] in [row.split() for row in capsys.readouterr().out.splitlines()]


def test_a_file_as_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("prog.py", "--json") == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert [(row["line"], row["self_percent"], row["total_percent"]) for row in lines] == [
        (3, 20, 20),
        (5, 0, 80),
        (9, 30, 30),
        (10, 10, 50),
    ]


def test_a_name_of_nothing_says_which_files_there_are(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("other.py") == 1
    assert "which source file? the hottest are /app/prog.py, /src/work.c" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("run.aiflame",), 1, "aiflame: which kernel of run.aiflame? the hottest are gemm"),
        (("conv",), 1, "aiflame: no kernel matches 'conv': the hottest are gemm"),
        (("other.aiflame", "gemm"), 1, "aiflame: other.aiflame does not exist"),
        (("gemm", "--cubin", "12"), 1, "aiflame: gemm was not sampled in cubin 0000000000000012: use a1b2c3d4e5f60718"),
        (("gemm", "--cubin", "xyz"), 2, "a cubin is named by 16 hexadecimal digits"),
        (("a", "b", "c"), 2, "put the kernel's name in quotes"),
        ((), 2, "aiflame: annotate needs the name of a kernel"),
    ],
)
def test_a_wrong_call_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert call(*arguments) == status
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
