"""`aiflame report`: its arguments, and its messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_profiles import training

from aiflame.cli import report as command
from aiflame.cli.commands import run
from aiflame.cli.main import guarded


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training(tmp_path_factory.mktemp("run")).path.parent


@pytest.fixture
def folder(profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.aiflame").symlink_to(profiles / "p.aiflame")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> int:
    try:
        return guarded(run, ["report", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


def test_without_arguments_the_newest_profile_becomes_report_html(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert capsys.readouterr() == ("report.html\n", "")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_path_is_all_that_goes_to_stdout(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LARGE", 1000)
    assert call("p.aiflame", "-o", "r.html", "--title", "My run", "--baseline", "p.aiflame") == 0
    out, errors = capsys.readouterr()
    assert out == "r.html\n"
    assert errors.startswith("r.html has ")
    assert errors.endswith("aiflame open shows the same without one large file\n")
    assert "<title>My run</title>" in (folder / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("missing.aiflame",), 1, "aiflame: missing.aiflame does not exist"),
        (("p.aiflame", "-o", "no/r.html"), 1, "aiflame: cannot write no/r.html: no such file or directory: choose another place with -o"),
        (("p.aiflame", "--baseline", "missing.aiflame"), 1, "aiflame: missing.aiflame does not exist"),
        (("p.aiflame", "--nothing"), 2, "aiflame: report has no option --nothing: see aiflame report -h"),
    ],
)
def test_an_error_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, message: str
) -> None:
    assert call(*arguments) == status
    out, error = capsys.readouterr()
    assert (out, error.startswith(message)) == ("", True)
    assert error.count("\n") == 1
    assert not (folder / "report.html").exists()
