"""A parallel job whose ranks are recorded each by its own recorder gives one profile. The launcher is a shell that sets PMI's variables."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON

import aiflame
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import boot_id
from aiflame.profile.ranks.job import rank_folders

LAUNCHER = """
for rank in $(seq 0 $(({size} - 1))); do
  PMI_RANK=$rank PMI_SIZE={size} MPI_LOCALRANKID=$rank "$@" &
done
wait
"""
RECORD = (PYTHON, "-m", "aiflame.cli.main", "record")


def launch(folder: Path, *command: str | Path, size: int = 4) -> tuple[dict[int, dict[str, int]], str]:
    """The output of each rank, and that of the recorders."""
    result = subprocess.run(
        ["sh", "-c", LAUNCHER.format(size=size), "sh", *map(str, command)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=600,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "SLURM_"))},
    )
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    return {each["rank"]: each for each in reports}, result.stderr


def test_four_ranks_are_one_profile(tmp_path: Path) -> None:
    reports, said = launch(tmp_path, *RECORD, "-o", "p.aiflame", "--", PYTHON, PROGRAMS / "rank.py")
    profile = aiflame.open(tmp_path / "p.aiflame")
    assert profile.meta.complete
    assert profile.meta.exit_status == 0
    ranks = profile.sql("SELECT rank, pid FROM ranks JOIN processes USING (process) ORDER BY rank").rows()
    assert ranks == [(rank, reports[rank]["pid"]) for rank in range(4)]

    tree = profile.tree("cpu-time", by="rank")
    names = tree.frames["name"].to_list()
    outer = {names[tree.frame[node]]: node for node in range(len(tree)) if tree.parent[node] == 0}
    assert set(outer) == {f"rank {rank}" for rank in range(4)}
    assert "own_work" in names
    totals = tree.totals("cpu-time")
    # A sample stands for the time since the one before: the samples may lack the last ticks of each rank's own account.
    assert totals[outer["rank 3"]] > totals[outer["rank 0"]]
    assert all(totals[outer[f"rank {rank}"]] > 0 for rank in range(4))

    summaries = [line for line in said.splitlines() if "next: aiflame open" in line]
    assert len(summaries) == 1
    assert summaries[0].startswith("aiflame: rank 0 of 4: ")
    assert "-> p.aiflame (" in summaries[0]


def test_ranks_are_sealed_in_turn_and_opening_the_profile_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "p.aiflame/ranks").mkdir(parents=True)
    turn = tmp_path / f"p.aiflame/ranks/sealing-{boot_id()}"
    with turn.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        launch(tmp_path, *RECORD, "-o", "p.aiflame", "--", PYTHON, PROGRAMS / "rank.py", size=2)
        until = time.monotonic() + 60
        while waiting(turn) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert all((tmp_path / f"p.aiflame/ranks/{rank:05}/spool").exists() for rank in range(2))
        assert aiflame.open(tmp_path / "p.aiflame").sql("SELECT rank FROM ranks ORDER BY rank").rows() == [(0,), (1,)]
        assert not any((tmp_path / f"p.aiflame/ranks/{rank:05}/spool").exists() for rank in range(2))


def waiting(file: Path) -> int:
    """Processes that wait for a lock of the file."""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(line[1] == "->" and line[6].rpartition(":")[2] == str(file.stat().st_ino) for line in lines)


def test_without_a_name_all_ranks_agree_on_one(tmp_path: Path) -> None:
    for _ in range(2):
        launch(tmp_path, *RECORD, "--no-seal", "--", PYTHON, PROGRAMS / "rank.py", size=2)
    profiles = sorted(path.name for path in tmp_path.iterdir())
    assert profiles == ["rank-2-ranks-2.aiflame", "rank-2-ranks.aiflame"]
    assert [list(rank_folders(Folder.open(tmp_path / name))) for name in profiles] == [[0, 1], [0, 1]]


def test_a_rank_that_is_killed_with_its_recorder_spoils_no_other(tmp_path: Path) -> None:
    reports, _ = launch(tmp_path, *RECORD, "-o", "p.aiflame", "--", PYTHON, PROGRAMS / "rank.py", "kill:2")
    assert set(reports) == {0, 1, 3}
    profile = aiflame.open(tmp_path / "p.aiflame")
    assert not profile.meta.complete
    # Its earlier records are there, too.
    assert profile.table("ranks")["rank"].to_list() == [0, 1, 2, 3]
    samples = profile.sql("SELECT rank, count(*) AS samples FROM cpu_samples JOIN ranks USING (process) GROUP BY rank ORDER BY rank")
    assert samples["rank"].to_list() == [0, 1, 2, 3]


def test_a_rank_without_a_recording_does_not_affect_others(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text("int main(void) { return 0; }")
    if subprocess.run(["gcc", "-static", "-o", str(tmp_path / "hello"), str(tmp_path / "hello.c")], check=False).returncode:
        pytest.skip("no static C library")
    record = shlex.join([*RECORD, "-o", "p.aiflame", "--"])
    program = f"if [ $PMI_RANK = 1 ]; then exec {record} ./hello; else exec {record} {PYTHON} {PROGRAMS / 'rank.py'}; fi"
    _, said = launch(tmp_path, "sh", "-c", program, size=2)
    assert "aiflame: rank 1: hello is statically linked" in said
    store = aiflame.open(tmp_path / "p.aiflame").store
    assert store.table("ranks")["rank"].to_list() == [0]
    assert "rank 1 recorded nothing" in store.notes()
    assert any(note.startswith("rank 1: hello is statically linked") for note in store.notes())


def test_ranks_that_are_not_wanted_just_run(tmp_path: Path) -> None:
    reports, said = launch(tmp_path, *RECORD, "-o", "p.aiflame", "--ranks", "1-2", "--", PYTHON, PROGRAMS / "rank.py")
    assert {rank: each["recorded"] for rank, each in reports.items()} == {0: False, 1: True, 2: True, 3: False}
    profile = aiflame.open(tmp_path / "p.aiflame")
    assert profile.table("ranks")["rank"].to_list() == [1, 2]
    assert profile.meta.complete
    assert "aiflame: rank 1 of 4: " in said


def test_a_rank_of_one_is_recorded_as_any_program(tmp_path: Path) -> None:
    _, said = launch(tmp_path, *RECORD, "-o", "p.aiflame", "--", PYTHON, PROGRAMS / "rank.py", size=1)
    assert not (tmp_path / "p.aiflame" / "ranks").exists()
    assert aiflame.open(tmp_path / "p.aiflame").table("processes").height == 1
    assert "rank 0" not in said


def test_choosing_ranks_needs_a_launcher(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "SLURM_", "OMPI_"))}
    result = subprocess.run([*RECORD, "--ranks", "0", "--", "true"], capture_output=True, text=True, cwd=tmp_path, env=bare, check=False)
    assert result.returncode == 1
    assert "no variable of a launcher says which rank this is" in result.stderr


@pytest.mark.parametrize("force", [False, True])
def test_a_smaller_run_under_the_same_name(tmp_path: Path, force: bool) -> None:
    launch(tmp_path, *RECORD, "--no-seal", "-o", "p.aiflame", "--", PYTHON, PROGRAMS / "rank.py", size=3)
    options = ["--force"] if force else []
    reports, said = launch(tmp_path, *RECORD, "-o", "p.aiflame", *options, "--", PYTHON, PROGRAMS / "rank.py", size=2)
    ranks = aiflame.open(tmp_path / "p.aiflame").table("ranks")
    assert ranks["size"].unique().to_list() == [2 if force else 3]
    assert ("of another run: choose another name with -o, or replace it with --force" in said) == (not force)
    assert set(reports) == ({0, 1} if force else set())


def test_one_recorder_outside_makes_one_profile_of_all_ranks(tmp_path: Path) -> None:
    inner = LAUNCHER.format(size=2)
    command = [*RECORD, "-o", "p.aiflame", "--", "sh", "-c", inner, "sh", PYTHON, str(PROGRAMS / "rank.py")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert not (tmp_path / "p.aiflame" / "ranks").exists()
    profile = aiflame.open(tmp_path / "p.aiflame")
    tree = profile.tree("cpu-time", by="rank")
    assert {"rank 0", "rank 1"} <= set(tree.frames["name"])
    some = aiflame.open(tmp_path / "p.aiflame", ranks={1})
    assert some.table("ranks")["rank"].unique().to_list() == [1]
