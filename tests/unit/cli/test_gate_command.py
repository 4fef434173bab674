"""`aiflame gate`: how it is called, its exit status, and profiles that it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gate_profiles import ended, training
from profiles import sealed
from rank_folders import a_rank, job, working

from aiflame.cli.commands import run
from aiflame.cli.main import guarded
from aiflame.profile.folder.meta import Meta


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    for seed in range(6):
        training(folder / "made", seed, gemm=100 if seed < 3 else 120, noise=0.002)
        name = f"base{seed}" if seed < 3 else f"new{seed - 3}"
        (folder / "made" / f"{seed}" / "p.aiflame").rename(folder / f"{name}.aiflame")
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for profile in recorded.glob("*.aiflame"):
        shutil.copytree(profile, tmp_path / profile.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def call(*arguments: str) -> int:
    try:
        return guarded(run, ["gate", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


BASE, NEW = [f"base{number}.aiflame" for number in range(3)], [f"new{number}.aiflame" for number in range(3)]


def test_a_regression_is_status_3_and_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*BASE, "--new", *NEW) == 3
    out = capsys.readouterr().out
    assert "Kernel sgemm takes 120 µs in a step, 100 µs before" in out
    assert out.splitlines()[-1].endswith("regressions")


def test_no_regression_is_status_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*NEW, "--new", *BASE) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No regression"


def test_without_an_option_the_last_profile_is_the_new_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("base0.aiflame", "new0.aiflame", "--json") == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["base"], answer["new"]) == (["base0.aiflame"], ["new0.aiflame"])
    assert call(*BASE, "new0.aiflame", "--json") == 3
    assert json.loads(capsys.readouterr().out)["base"] == BASE


def test_options_may_stand_anywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--threshold", "kernel=30%", "--threshold", "layer=off", BASE[0], "--new", *NEW[:1], "--json") == 3
    measures = json.loads(capsys.readouterr().out)["measures"]
    assert {one["metric"] for one in measures if one["outcome"] == "slower"} <= {"step", "gpu", "line"}
    assert "layer" not in {one["metric"] for one in measures}


def test_files_for_ci_are_written_and_the_answer_is_printed_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*BASE, "--new", *NEW, "--markdown", "gate.md", "--junit", "gate.xml") == 3
    assert "Kernel sgemm" in capsys.readouterr().out
    assert (folder / "gate.md").read_text().startswith("## 🔴 aiflame gate: ")
    assert ElementTree.parse(folder / "gate.xml").getroot().tag == "testsuites"


def test_a_hyphen_prints_a_format_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*BASE, "--new", *NEW, "--junit", "-") == 3
    ElementTree.fromstring(capsys.readouterr().out.encode())
    assert call(*BASE, "--new", *NEW, "--markdown", "-", "--junit", "gate.xml") == 3
    assert capsys.readouterr().out.startswith("## ")


def test_a_reader_that_leaves_early_does_not_change_the_status(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("aiflame.cli.gate.print_gate", closed)
    stdout = sys.stdout
    assert call(BASE[0], NEW[0]) == 3
    sys.stdout = stdout


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), 2, "gate needs profiles of both versions: aiflame gate BASE NEW"),
        (("base0.aiflame",), 2, "gate needs profiles of both versions"),
        (("--new", "new0.aiflame"), 2, "gate needs profiles of both versions"),
        (("base0.aiflame", "./base0.aiflame"), 2, "gate got base0.aiflame twice: each run counts once"),
        (("base0.aiflame", "new0.aiflame", "--json", "--junit", "-"), 2, "gate prints one of --json, --markdown - and --junit -"),
        (("base0.aiflame", "new0.aiflame", "--threshold", "kernels=5"), 2, "'kernels=5' is no threshold: write METRIC=PERCENT"),
        (("base0.aiflame", "new0.aiflame", "--threshold", "kernel=much"), 2, "'much' is no percentage: write a number such as 5%"),
        (("base0.aiflame", "new0.aiflame", "--threshold", "kernel=-1"), 2, "'-1' is no percentage"),
        (("base0.aiflame", "new0.aiflame", "--threshold", "kernel=nan"), 2, "'nan' is no percentage"),
        (("base0.aiflame", "new0.aiflame", "--margin", "x"), 2, "'x' is no percentage"),
        (("base0.aiflame", "new0.aiflame", "--threshold", "waiting=5"), 1, "--threshold waiting: not all of these profiles"),
        (("base0.aiflame", "nothing.aiflame"), 1, "nothing.aiflame does not exist"),
        (("base0.aiflame", "new0.aiflame", "--junit", "no/gate.xml"), 1, "cannot write no/gate.xml: no such file or directory"),
    ],
)
def test_a_wrong_call_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert call(*arguments) == status
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def written(folder: Path, meta: Meta) -> None:
    """Puts other metadata into a profile."""
    path = folder / "new0.aiflame"
    data = json.loads((path / "meta.json").read_text())
    data |= {name: getattr(meta, name) for name in ("format", "complete", "degraded", "exit_status", "version")}
    (path / "meta.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        (ended(format=999), "new0.aiflame was written by a newer aiflame (format 999; this one reads 1): upgrade with"),
        (ended(complete=False), "new0.aiflame was cut short, so that its times may be too small (its recorder did not see the end of"),
        (
            ended(degraded=("recording stopped early: the size limit of 5 MB was reached (--max-size)",)),
            "new0.aiflame was cut short (recording stopped early: the size limit of 5 MB was reached (--max-size))",
        ),
        (ended(exit_status=1), "ended differently (base0.aiflame with exit status 0, new0.aiflame with exit status 1)"),
    ],
)
def test_profiles_that_were_cut_short_or_are_of_another_version_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], meta: Meta, says: str
) -> None:
    written(folder, meta)
    assert call("base0.aiflame", "new0.aiflame") == 1
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert "record" in err or "upgrade" in err


def test_profiles_with_nothing_in_them_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hollow.aiflame").mkdir()
    assert call("base0.aiflame", "hollow.aiflame") == 1
    assert "hollow.aiflame is empty: not a profile" in capsys.readouterr().err
    sealed(folder / "idle.aiflame", ended(), symbols=[{"process": 0}])
    assert call("base0.aiflame", "idle.aiflame") == 1
    err = capsys.readouterr().err
    assert "idle.aiflame has nothing to compare: no sample of CPU time and no kernel or copy of a GPU. Record it again with" in err


def test_jobs_of_many_ranks_are_compared_and_a_lost_rank_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = job(tmp_path / "base.aiflame", *map(a_rank, range(4)), tables=lambda rank: working(ticks=1000))
    new = job(tmp_path / "new.aiflame", *map(a_rank, range(4)), tables=lambda rank: working(ticks=2000 if rank == 2 else 1000))
    assert call(str(base), str(new), "--json") == 3
    slower = [one for one in json.loads(capsys.readouterr().out)["measures"] if one["outcome"] == "slower"]
    assert [(one["metric"], one["item"], one["change"]) for one in slower] == [("cpu", "", 0.25), ("function", "work", 0.25)]
    lost = job(tmp_path / "lost.aiflame", *map(a_rank, range(3)), tables=lambda rank: working(ticks=1000))
    assert call(str(base), str(lost)) == 1
    assert "lost.aiflame was cut short, so that its times may be too small (rank 3 left nothing behind)" in capsys.readouterr().err


def test_a_damaged_table_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (folder / "new0.aiflame/tables/kernels").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    assert call("base0.aiflame", "new0.aiflame") == 1
    err = capsys.readouterr().err
    assert "kernels" in err
    assert err.count("\n") == 1


def test_metadata_that_is_missing_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "new0.aiflame/meta.json").write_text("{")
    assert call("base0.aiflame", "new0.aiflame") == 1
    assert "meta.json is missing or damaged" in capsys.readouterr().err
