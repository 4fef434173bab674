"""`aiflame attach`: a program that was started without us is recorded, and goes on as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from recording import PYTHON, samples_so_far, time_under, wait_for

import aiflame
from aiflame.recorder.library import collector_file
from interpreters import VERSIONS, interpreter

PROGRAM = Path(__file__).parent / "programs/known_shares.py"
SIGPROF, SIGSEGV = 27, 11


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([PYTHON, PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cpython_is_recorded(version: str, tmp_path: Path) -> None:
    """The program says itself how its time is divided: of 250 samples, three quarters have a standard error of 3 points."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"CPython {version} is not here")
    process = subprocess.Popen([python, PROGRAM, "busy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    attach_until(process.pid, tmp_path / "p.aiflame", samples=250)
    assert end(process) == (7, "0\n", "")
    tree = aiflame.open(tmp_path / "p.aiflame").tree("cpu-time")
    heavy, light = time_under(tree, "heavy", "turn"), time_under(tree, "light", "turn")
    assert 0.55 < heavy / (heavy + light) < 0.92


def attach(pid: int, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(pid), "-o", str(path), "--no-seal", "--telemetry", "off", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def attach_until(pid: int, path: Path, samples: int) -> None:
    """On a busy machine the program may hardly run for seconds: the recording ends when there is enough in it."""
    ours = ("--no-seal", "--telemetry", "off", "--cpu-rate", "499")
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(pid), "-o", str(path), *ours]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: recorder.poll() is not None or samples_so_far(path, pid) >= samples)
    recorder.send_signal(signal.SIGINT)
    errors = recorder.communicate(timeout=120)[1]
    assert recorder.returncode == 0, errors


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def facts(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_program_is_recorded_twice_and_left_as_it_was(program: subprocess.Popen[str], tmp_path: Path) -> None:
    before = facts(program.pid)
    for name in ("first", "second"):
        path = tmp_path / f"{name}.aiflame"
        attach_until(program.pid, path, samples=20)
        profile = aiflame.open(path)
        assert profile.meta.attached == program.pid
        assert profile.meta.command == (PYTHON, str(PROGRAM))
        assert profile.meta.degraded == ()
        assert time_under(profile.tree("cpu-time"), "heavy", "turn") > 0
        threads = profile.table("threads")
        assert set(threads.filter(threads["tid"] == program.pid)["name"]) == {Path(PYTHON).name[:15]}

        after = facts(program.pid)
        caught = int(after["SigCgt"], 16)
        assert not caught >> (SIGPROF - 1) & 1
        assert not caught >> (SIGSEGV - 1) & 1
        assert Path(f"/proc/{program.pid}/timers").read_text() == ""
        assert {key: after[key] for key in ("Threads", "TracerPid", "SigBlk")} == {
            key: before[key] for key in ("Threads", "TracerPid", "SigBlk")
        }
    assert end(program) == (7, "0\n", "")


def test_nothing_grows_after_the_first_recording(program: subprocess.Popen[str], tmp_path: Path) -> None:
    """A table more or less, and once 1 MB for the list of processes at another place, are no growth: four recordings would have four."""
    held = []
    for number in range(6):
        path = tmp_path / f"{number}.aiflame"
        result = attach(program.pid, path, "--duration", "0.3s")
        assert result.returncode == 0, result.stderr
        status = facts(program.pid)
        areas = len(Path(f"/proc/{program.pid}/maps").read_text().splitlines())
        held.append((int(status["VmSize"].split()[0]), areas, len(list(Path(f"/proc/{program.pid}/fd").iterdir()))))
    grown = [last - second for second, last in zip(held[1], held[-1], strict=True)]
    assert grown[0] <= 1100 and grown[1] <= 2 and grown[2] == 0, held
    assert end(program) == (7, "0\n", "")


def test_a_program_that_ends_ends_the_recording(program: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(program.pid), "-o", str(path), "--no-seal", "--telemetry", "off"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert recorder.stderr is not None
    assert "recording process" in recorder.stderr.readline()
    assert end(program) == (7, "0\n", "")
    assert recorder.wait(60) == 0
    assert aiflame.open(path).meta.complete


def test_ctrl_c_ends_the_recording_and_not_the_program(program: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(program.pid), "-o", str(path), "--no-seal", "--telemetry", "off"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert recorder.stderr is not None
    assert "recording process" in recorder.stderr.readline()
    again = attach(program.pid, tmp_path / "again.aiflame", "--duration", "1s")
    assert again.returncode == 1
    assert again.stderr == f"aiflame: process {program.pid} is recorded already: end that recording first\n"
    assert not (tmp_path / "again.aiflame").exists()
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(60) == 0
    assert aiflame.open(path).meta.complete
    assert end(program) == (7, "0\n", "")


def test_signals_one_after_the_other_do_not_end_us_while_we_leave(program: subprocess.Popen[str], tmp_path: Path) -> None:
    """The first ends the recording. If a later one ended us, a borrowed thread would go on with registers that are not its own."""
    path = tmp_path / "p.aiflame"
    command = [PYTHON, "-m", "aiflame.cli.main", "attach", str(program.pid), "-o", str(path), "--no-seal", "--telemetry", "off"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert recorder.stderr is not None
    assert "recording process" in recorder.stderr.readline()
    while recorder.poll() is None:
        recorder.send_signal(signal.SIGTERM)
        recorder.send_signal(signal.SIGINT)
    assert recorder.returncode == 0
    assert aiflame.open(path).meta.complete
    assert not int(facts(program.pid)["SigCgt"], 16) >> (SIGPROF - 1) & 1
    assert end(program) == (7, "0\n", "")


ASKED_TO_END = """import os, signal
from pathlib import Path
from aiflame.recorder.attach.session import attach
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT}})
os.kill(os.getpid(), signal.SIGINT)
attach({pid}, lambda _: ProfileLocation(Path({path!r}), Path({path!r})), RecordOptions())
"""


def test_ctrl_c_before_a_thread_is_borrowed_leaves_the_program_as_it_is(program: subprocess.Popen[str], tmp_path: Path) -> None:
    before = facts(program.pid)["SigCgt"]
    text = ASKED_TO_END.format(pid=program.pid, path=str(tmp_path / "p.aiflame"))
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert result.stderr.endswith("KeyboardInterrupt\n")
    assert not (tmp_path / "p.aiflame").exists()
    assert facts(program.pid)["SigCgt"] == before
    assert end(program) == (7, "0\n", "")


KILLED = """import os, sys
from pathlib import Path
from aiflame.recorder.attach import code, injector
code._PATIENCE_CYCLES = 100_000_000
injector.Injector._await_thread = lambda *_: os._exit(9)
injector.Injector({pid}).call(Path({library!r}), "aiflame_stop", b"")
"""


def test_a_borrowed_thread_goes_on_by_itself_when_we_are_killed(program: subprocess.Popen[str]) -> None:
    for _ in range(5):
        text = KILLED.format(pid=program.pid, library=str(collector_file()))
        assert subprocess.run([sys.executable, "-c", text], env=os.environ, check=False).returncode == 9
    assert end(program) == (7, "0\n", "")
