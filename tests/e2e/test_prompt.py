"""`aiflame record` ends with its command: sealing goes on in the background, and running processes stay recorded."""

# ruff: noqa: PTH115, PTH121, PTH208

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recording import PYTHON

import aiflame
from aiflame.profile.folder.meta import start_ticks

RECORD = [PYTHON, "-m", "aiflame.cli.main", "record"]

HELD = """
import sys
if any("aiflame.cli.support.sealer" in one for one in sys.orig_argv):
    open({fifo!r}).read()
"""
"""A sitecustomize: the sealing process waits until somebody has opened the FIFO and closed it."""


class HeldSealer:
    """The sealing process of a recording is held before it does anything."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "go"
        os.mkfifo(self.fifo)
        (folder / "sitecustomize.py").write_text(HELD.format(fifo=str(self.fifo)))
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}

    def pid(self) -> int:
        """Waits until it is there."""
        self._kept = os.open(self.fifo, os.O_WRONLY)  # waits for its reader, whose descriptor comes a moment later
        _wait_for(self._readers)
        return self._readers()[0]

    def _readers(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _has_open(pid, self.fifo)]

    def go(self) -> None:
        os.close(self._kept)


def _has_open(pid: int, path: Path) -> bool:
    if pid == os.getpid():
        return False
    try:
        return any(os.path.samefile(f"/proc/{pid}/fd/{one}", path) for one in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


@pytest.fixture
def held(tmp_path: Path) -> HeldSealer:
    (tmp_path / "held").mkdir()
    return HeldSealer(tmp_path / "held")


def test_the_sealing_process_is_detached_and_holds_no_file_open(tmp_path: Path, held: HeldSealer) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    path = tmp_path / "a.aiflame"
    result = subprocess.run(
        [*RECORD, "-o", str(path), "--", "true"], env=held.env, close_fds=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert result.returncode == 0, result.stderr  # both ends of its output are closed: `run` has returned
    os.close(writing)
    assert os.read(reading, 1) == b""  # a launcher that waits for the end of this pipe goes on
    os.close(reading)
    pid = held.pid()
    assert os.getsid(pid) == pid != os.getsid(0)
    assert {os.readlink(f"/proc/{pid}/fd/{one}") for one in os.listdir(f"/proc/{pid}/fd")} == {"/dev/null", str(held.fifo)}
    held.go()
    assert len(aiflame.open(path).table("processes")) == 1


def test_a_profile_that_is_removed_at_once_stays_removed(tmp_path: Path, held: HeldSealer) -> None:
    path = tmp_path / "a.aiflame"
    subprocess.run([*RECORD, "-o", str(path), "--", "true"], env=held.env, check=True, cwd=tmp_path, timeout=60)
    pid = held.pid()
    subprocess.run(["rm", "-r", str(path)], check=True)
    with _ends(pid):
        held.go()
    assert not path.exists()


def test_a_killed_sealer_is_taken_over_by_the_next_command(tmp_path: Path, held: HeldSealer) -> None:
    path = tmp_path / "a.aiflame"
    subprocess.run(
        [*RECORD, "-o", str(path), "--", PYTHON, "-c", "sum(range(30_000_000))"], env=held.env, check=True, cwd=tmp_path, timeout=60
    )
    with _ends(pid := held.pid()):
        os.kill(pid, signal.SIGKILL)
    assert (path / "spool").exists()
    assert len(aiflame.open(path).table("cpu_samples")) > 0
    assert not (path / "spool").exists()


def test_the_next_command_reports_a_failure_in_the_background_and_seals(tmp_path: Path, held: HeldSealer) -> None:
    path = tmp_path / "a.aiflame"
    subprocess.run(
        [*RECORD, "-o", str(path), "--", PYTHON, "-c", "sum(range(30_000_000))"], env=held.env, check=True, cwd=tmp_path, timeout=60
    )
    (path / "a link").symlink_to("/etc/hostname")
    with _ends(held.pid()):
        held.go()
    (path / "a link").unlink()
    top = [PYTHON, "-m", "aiflame.cli.main", "top", str(path)]
    first, second = (subprocess.run(top, capture_output=True, text=True, check=True, timeout=60) for _ in range(2))
    (line,) = [line for line in first.stderr.splitlines() if "failed" in line]
    assert line.startswith(f"aiflame: sealing {path} in the background failed (")
    assert "a symbolic link" in line
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert not (path / "spool").exists()


def spinning_library(folder: Path) -> Path:
    source, library = folder / "spin.c", folder / "venv/libspin.so"
    source.write_text(SPIN)
    library.parent.mkdir()
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


SPIN = (
    "long spin_in_a_temporary_library(long rounds) { volatile long sum = 0; for (long at = 0; at < rounds; at++) sum += at; return sum; }"
)


def test_a_library_that_is_gone_when_the_profile_is_sealed_has_its_names(tmp_path: Path, held: HeldSealer) -> None:
    library, path = spinning_library(tmp_path), tmp_path / "a.aiflame"
    code = f"import ctypes; ctypes.CDLL({str(library)!r}).spin_in_a_temporary_library(ctypes.c_long(100_000_000))"
    subprocess.run([*RECORD, "-o", str(path), "--", PYTHON, "-c", code], env=held.env, check=True, cwd=tmp_path, timeout=60)
    pid = held.pid()
    library.unlink()
    with _ends(pid):
        held.go()
    profile = aiflame.open(path)
    assert "spin_in_a_temporary_library" in profile.table("symbols")["name"].to_list()
    assert sum(file.stat().st_size for file in path.rglob("*.so")) == 0
    assert not (path / "binaries").exists()


def test_commands_that_wait_for_the_sealing_process_get_its_result(tmp_path: Path, held: HeldSealer) -> None:
    path = tmp_path / "a.aiflame"
    subprocess.run(
        [*RECORD, "-o", str(path), "--", PYTHON, "-c", "sum(range(30_000_000))"], env=held.env, check=True, cwd=tmp_path, timeout=60
    )
    top = [PYTHON, "-m", "aiflame.cli.main", "top", str(path)]
    with _ends(held.pid()):
        waiting = [subprocess.Popen(top, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        held.go()
    answers = [process.communicate(timeout=60) for process in waiting]
    assert [process.returncode for process in waiting] == [0, 0, 0]
    assert len(set(answers)) == 1
    assert answers[0][1] == ""
    assert not (path / "spool").exists()


@contextmanager
def _ends(pid: int) -> Iterator[None]:
    """Waits for the end of a process that is no child of ours."""
    watched = os.pidfd_open(pid)
    yield
    try:
        import select

        assert select.select([watched], [], [], 60)[0], "the sealing process does not end"
    finally:
        os.close(watched)


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL])
@pytest.mark.parametrize("number", [signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_the_program_gets_the_dispositions_that_the_recorder_was_started_with(
    tmp_path: Path, number: signal.Signals, action: signal.Handlers
) -> None:
    def set_disposition() -> None:
        signal.signal(number, action)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM, signal.SIGUSR2})

    program = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]

    def seen(command: list[str]) -> str:
        return subprocess.run(command, preexec_fn=set_disposition, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    alone = seen(program)
    assert seen([*RECORD, "--no-seal", "-q", "-o", str(tmp_path / "a.aiflame"), "--", *program]) == alone


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(3)
os.setsid()
def work(): return sum(range(200_000))
while time.process_time() < 0.5: work()
open(sys.argv[1], "w").close()        # half a second is recorded behind the command's end
os.mkfifo(sys.argv[1] + ".end")
open(sys.argv[1] + ".end").read()
while time.process_time() < 1: work()
"""


def test_record_returns_with_its_command_and_its_daemons_are_recorded_on(tmp_path: Path) -> None:
    ready, path = tmp_path / "ready", tmp_path / "a.aiflame"
    said = tmp_path / "said"  # a pipe would be the daemon's, too
    command = [*RECORD, "-o", str(path), "--", PYTHON, "-c", DAEMON, str(ready)]
    with said.open("w") as stderr:
        result = subprocess.run(command, stderr=stderr, cwd=tmp_path, timeout=60, check=False)
    assert result.returncode == 3
    assert "1 process of the program" in said.read_text()
    assert "goes on and is still being recorded" in said.read_text()
    _wait_for(ready.with_name("ready.end").exists)
    while_it_runs = aiflame.open(path)
    assert [note for note in while_it_runs.store.notes() if "still being recorded" in note]
    seen = int(while_it_runs.table("cpu_samples")["weight"].sum())
    assert seen > 20
    pid = while_it_runs.table("processes").sort("start_ns")["pid"][-1]
    with _ends(pid):
        ready.with_name("ready.end").write_text("")
    profile = aiflame.open(path)
    assert not [note for note in profile.store.notes() if "still being recorded" in note]
    assert profile.table("cpu_samples")["weight"].sum() > seen
    assert len(profile.table("process_ends")) == 2
    assert not (path / "spool").exists()


def test_a_library_that_is_gone_when_the_last_daemon_ends_has_its_names(tmp_path: Path) -> None:
    library, path, end = spinning_library(tmp_path), tmp_path / "a.aiflame", tmp_path / "end"
    os.mkfifo(end)
    code = (
        f"import ctypes, os; ctypes.CDLL({str(library)!r}).spin_in_a_temporary_library(ctypes.c_long(100_000_000))\n"
        f"if not os.fork():\n    os.setsid()\n    open({str(end)!r}).read()"
    )
    subprocess.run([*RECORD, "-o", str(path), "--", PYTHON, "-c", code], stderr=subprocess.DEVNULL, check=True, timeout=60)
    library.unlink()
    pid = aiflame.open(path).table("processes").sort("start_ns")["pid"][-1]
    with _ends(pid):
        end.write_text("")
    assert "spin_in_a_temporary_library" in aiflame.open(path).table("symbols")["name"].to_list()


def test_wait_daemons_waits_for_them(tmp_path: Path) -> None:
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid(); end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    path = tmp_path / "a.aiflame"
    result = subprocess.run(
        [*RECORD, "--wait-daemons", "--no-seal", "-o", str(path), "--", PYTHON, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert result.returncode == 0
    assert "still being recorded" not in result.stderr
    assert len(aiflame.open(path).table("process_ends")) == 2


def _wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ctrl_c_in_the_terminal_does_not_reach_the_sealing_process(tmp_path: Path, held: HeldSealer) -> None:
    shell = subprocess.Popen(
        ["setsid", "sh", "-c", f"{' '.join(RECORD)} -q -o a.aiflame -- true; kill -INT -$$"], env=held.env, cwd=tmp_path
    )
    pid = held.pid()
    shell.wait(60)
    assert start_ticks(pid) is not None
    with _ends(pid):
        held.go()
    assert not (tmp_path / "a.aiflame/spool").exists()
