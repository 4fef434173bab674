"""`aiflame attach` records the children of a process, also those that another interpreter runs, and the ranks of a job."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recording import PYTHON, samples_so_far, time_under, wait_for

import aiflame

PROGRAMS = Path(__file__).parent / "programs"
MANY = 100
_Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[_Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(name: str, **variables: str) -> subprocess.Popen[str]:
        command = [PYTHON, str(PROGRAMS / name)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}))
        stdout = running[-1].stdout
        assert stdout is not None and stdout.readline() == "begun\n"
        return running[-1]

    yield begin
    for process in running:
        process.terminate()
        process.communicate()


def attach(pid: int, path: Path, *options: str) -> subprocess.Popen[str]:
    ours = ("--no-seal", "--telemetry", "off", "--cpu-rate", "499")
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(pid), "-o", str(path), *ours, *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def end(recorder: subprocess.Popen[str]) -> str:
    recorder.send_signal(signal.SIGINT)
    said = recorder.communicate(timeout=120)[1]
    assert recorder.returncode == 0, said
    return said


def recorded(profile: Path, pid: int) -> bool:
    """True when it has samples, more than of its start; multiprocessing's own child, which only waits, never gets any."""
    return samples_so_far(profile, pid) >= MANY


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_children_that_run_and_children_that_come_are_recorded(start: _Start, tmp_path: Path) -> None:
    program, path = start("family.py"), tmp_path / "p.aiflame"
    running = children(program.pid)
    assert running
    recorder = attach(program.pid, path)
    wait_for(lambda: all(recorded(path, pid) for pid in (program.pid, running[-1])))
    program.send_signal(signal.SIGUSR1)
    wait_for(lambda: len(children(program.pid)) > len(running))
    (new,) = set(children(program.pid)) - set(running)
    wait_for(lambda: recorded(path, new))
    assert "processes" in end(recorder)
    profile = aiflame.open(path)
    assert profile.meta.degraded == ()
    tree = profile.tree("cpu-time")
    for function in ("first", "early", "late"):
        assert time_under(tree, function, "turn") > 0, function
    assert program.poll() is None
    for pid in (program.pid, *running, new):
        assert Path(f"/proc/{pid}/timers").read_text() == ""


def test_a_process_that_starts_another_program_goes_on_being_recorded(start: _Start, tmp_path: Path) -> None:
    program, path = start("becomes.py"), tmp_path / "p.aiflame"
    recorder = attach(program.pid, path)
    wait_for(lambda: recorded(path, program.pid))
    program.send_signal(signal.SIGUSR1)
    before = samples_so_far(path, program.pid)
    wait_for(lambda: len(list(path.glob(f"spool/{program.pid}.*/cpu_samples.table"))) == 2)
    wait_for(lambda: samples_so_far(path, program.pid) >= before + MANY)
    end(recorder)
    profile = aiflame.open(path)
    assert profile.meta.degraded == ()
    tree = profile.tree("cpu-time")
    assert time_under(tree, "before", "turn") > 0
    assert time_under(tree, "heavy", "turn") > 0
    assert program.poll() is None


def test_children_that_end_at_any_moment_do_no_harm(start: _Start, tmp_path: Path) -> None:
    program, path = start("short_children.py"), tmp_path / "p.aiflame"
    recorder = attach(program.pid, path, "--duration", "3s")
    said = recorder.communicate(timeout=120)[1]
    assert recorder.returncode == 0, said
    assert aiflame.open(path).meta.degraded == ()
    program.terminate()
    assert program.communicate(timeout=60)[0] == "0\n"
    assert program.returncode == 7


INTERRUPTED = """import sys
from aiflame.cli.main import main
from aiflame.recorder.attach import group

def interrupted(*_):
    raise KeyboardInterrupt

group.Group._attach = interrupted
sys.argv[1:] = ["attach", "{pid}", "-o", {path!r}, "--telemetry", "off"]
sys.exit(main())
"""


def test_an_attach_that_is_interrupted_leaves_nothing_behind(start: _Start, tmp_path: Path) -> None:
    """Ctrl-C comes when the first process is recorded and its children are not yet."""
    program, path = start("known_shares.py"), tmp_path / "p.aiflame"
    text = INTERRUPTED.format(pid=program.pid, path=str(path))
    assert subprocess.run([PYTHON, "-c", text], capture_output=True, check=False).returncode
    assert Path(f"/proc/{program.pid}/timers").read_text() == ""
    assert not path.exists()
    assert program.poll() is None


def test_without_children_the_process_alone_is_recorded(start: _Start, tmp_path: Path) -> None:
    program, path = start("family.py"), tmp_path / "p.aiflame"
    recorder = attach(program.pid, path, "--no-children")
    wait_for(lambda: recorded(path, program.pid))
    end(recorder)
    assert {folder.name.split(".")[0] for folder in path.glob("spool/*.*/")} == {str(program.pid)}


def test_all_ranks_of_a_job_and_no_other_are_recorded(start: _Start, tmp_path: Path) -> None:
    def job(port: str, rank: int) -> subprocess.Popen[str]:
        return start("known_shares.py", RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), MASTER_ADDR="localhost", MASTER_PORT=port)

    ranks, path = [job("29611", 0), job("29611", 1)], tmp_path / "p.aiflame"
    other = job("29612", 0)
    recorder = attach(ranks[1].pid, path, "--job")
    wait_for(lambda: all(recorded(path, rank.pid) for rank in ranks))
    end(recorder)
    rows = aiflame.open(path).table("ranks")
    assert sorted(rows["rank"]) == [0, 1]
    assert not samples_so_far(path, other.pid)
    assert [rank.poll() for rank in ranks] == [None, None]


def test_a_process_outside_of_a_job_has_none(start: _Start, tmp_path: Path) -> None:
    program = start("known_shares.py", RANK="", WORLD_SIZE="")
    recorder = attach(program.pid, tmp_path / "p.aiflame", "--job")
    said = recorder.communicate(timeout=60)[1]
    assert recorder.returncode == 1
    assert said.startswith(f"aiflame: process {program.pid} belongs to no job: neither it nor a child has a rank")
    assert not (tmp_path / "p.aiflame").exists()


def test_a_child_that_cannot_be_recorded_is_named(start: _Start, tmp_path: Path) -> None:
    """It is stopped, as by a shell's Ctrl-Z."""
    program, path = start("family.py"), tmp_path / "p.aiflame"
    child = children(program.pid)[-1]
    os.kill(child, signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    recorder = attach(program.pid, path)
    wait_for(lambda: recorded(path, program.pid))
    end(recorder)
    os.kill(child, signal.SIGCONT)
    (note,) = aiflame.open(path).meta.degraded
    assert note.startswith(f"process {child} (") and "is stopped: let it go on first" in note
