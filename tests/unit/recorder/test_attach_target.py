"""Processes that cannot be attached to, each with one line that says why."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiflame.errors import AiflameError
from aiflame.recorder.attach.listing import programs
from aiflame.recorder.attach.target import finds, has_own_filters, target

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def waits(pid: int) -> bool:
    """True where the program stands in its sleep, of 60 s."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("35", "230")


def reason(pid: int) -> str:
    with pytest.raises(AiflameError) as error:
        target(pid)
    return str(error.value)


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert reason(process.pid).startswith(f"there is no process {process.pid}")
    assert "there is no process" in reason(1 << 40)


def test_a_process_whose_end_nobody_has_asked_for() -> None:
    process = subprocess.Popen(["/bin/true"])
    until(lambda: state(process.pid) == "Z")
    assert "has ended" in reason(process.pid)
    process.wait()


def test_a_thread_leads_to_its_process() -> None:
    over, tids = threading.Event(), list[int]()

    def wait() -> None:
        tids.append(threading.get_native_id())
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: bool(tids))
    try:
        assert reason(tids[0]) == f"{tids[0]} is a thread of process {os.getpid()}: attach to that one"
    finally:
        over.set()
        thread.join()


def test_aiflame_itself() -> None:
    assert "itself" in reason(os.getpid())


def test_a_stopped_process_is_told_apart() -> None:
    process = subprocess.Popen(SLEEPS)
    try:
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: state(process.pid) == "T")
        assert f"kill -CONT {process.pid}" in reason(process.pid)
    finally:
        process.kill()
        process.wait()


def static_program(path: Path) -> Path:
    """An ELF file without libraries: pause() for ever."""
    code = b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7"
    base, at = 0x400000, 64 + 56
    size = at + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + at, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    path.write_bytes(head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + code)
    path.chmod(0o700)
    return path


def test_a_static_program(tmp_path: Path) -> None:
    process = subprocess.Popen([static_program(tmp_path / "still")])
    try:
        assert "linked statically" in reason(process.pid)
    finally:
        process.kill()
        process.wait()


def test_a_program_that_is_recorded_already(tmp_path: Path) -> None:
    profile = tmp_path / "p.aiflame"
    command = [sys.executable, "-m", "aiflame", "record", "--no-seal", "-q", "-o", str(profile), "--", *SLEEPS]
    recorder = subprocess.Popen(command)
    children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
    until(lambda: bool(children.read_text()))
    program = int(children.read_text())
    try:
        until(lambda: waits(program))
        assert reason(program) == f"process {program} is recorded already, into {profile}"
    finally:
        os.kill(program, signal.SIGKILL)
        recorder.wait()


def test_files_that_the_program_does_not_see(tmp_path: Path) -> None:
    process = subprocess.Popen(SLEEPS)
    try:
        assert finds(process.pid, tmp_path)
        assert not finds(process.pid, tmp_path, tmp_path / "missing")
    finally:
        process.kill()
        process.wait()


def test_programs_are_listed_with_what_they_use_and_their_rank() -> None:
    process = subprocess.Popen(SLEEPS, env={**os.environ, "RANK": "3", "WORLD_SIZE": "8"})
    try:
        until(lambda: waits(process.pid))
        listed = {program.pid: program for program in programs()}
        program = listed[process.pid]
        assert program.uses[0] == f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        assert (program.rank, program.threads, program.obstacle) == (3, 1, "")
        assert program.command == tuple(SLEEPS)
        assert os.getpid() not in listed
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_files_are_compared_where_the_kernel_is_older_than_openat2(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(number, "no openat2")

    monkeypatch.setattr("aiflame.recorder.attach.target.find", refused)
    assert finds(os.getpid(), tmp_path)
    assert not finds(os.getpid(), tmp_path / "missing")


@pytest.mark.parametrize(
    ("filters", "parent", "ours", "of_parent", "expected"),
    [
        (1, 1, 0, "here", False),
        (1, 0, 0, "here", True),
        (1, 0, 1, "here", True),
        (1, 0, 1, "outside", False),
        (2, 0, 1, "outside", True),
        (1, 0, 1, "", True),
    ],
)
def test_filters_that_are_not_those_of_the_parent_or_of_our_container(
    filters: int, parent: int, ours: int, of_parent: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process has a sandbox of its own where it has more of them; ours count where the runtime of our container has begun it."""
    counts, places = {7: filters, 5: parent, os.getpid(): ours}, {7: "here", 5: of_parent}

    def facts(pid: int) -> dict[str, str]:
        return {"PPid": "5", "Seccomp_filters": str(counts[pid])}

    monkeypatch.setattr("aiflame.recorder.attach.target._facts", facts)
    monkeypatch.setattr("aiflame.recorder.attach.target.namespace_of", lambda pid=0: places.get(pid, "here"))
    assert has_own_filters(7) is expected
