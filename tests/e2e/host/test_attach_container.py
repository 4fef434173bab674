"""`aiflame attach` of a program in a container, from outside: it sees other files than we, and has another number for itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from containers import Contained
from recording import PYTHON, samples_so_far, time_under, wait_for

import aiflame
from aiflame.api import Profile
from aiflame.errors import AiflameError
from aiflame.recorder.attach.member import Member
from aiflame.recorder.library import collector_file
from aiflame.recorder.numbers import Numbers

INSIDE = 1
"""The program's number in its container."""


@dataclass(frozen=True, slots=True)
class Seen:
    profile: Profile
    said: str
    before: dict[str, object]
    after: dict[str, object]
    child: int
    """The forked child's number in the container."""
    child_timers: str
    again: subprocess.CompletedProcess[str]
    """A second recording."""
    copied: int
    """Binaries of the container in its profile, which is not sealed at once."""
    mapped: int
    answer: dict[str, Any]


def command(pid: int, path: Path, *options: str) -> list[str]:
    return [PYTHON, "-m", "aiflame.cli.main", "attach", str(pid), "-o", str(path), "--telemetry", "off", "--cpu-rate", "499", *options]


def child_of(pid: int) -> int:
    """Its only child, here."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def number_inside(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:"))
    return int(line.split()[-1])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("container")
    program, path = Contained(folder / "root", "contained.py"), folder / "p.aiflame"
    try:
        before = program.facts()
        recorder = subprocess.Popen(command(program.pid, path), stderr=subprocess.PIPE, text=True)
        wait_for(lambda: recorder.poll() is not None or samples_so_far(path, INSIDE) >= 250)
        os.kill(program.pid, signal.SIGUSR1)
        wait_for(lambda: Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text())
        child = child_of(program.pid)
        wait_for(lambda: recorder.poll() is not None or samples_so_far(path, number_inside(child)) >= 20)
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=120)[1]
        assert recorder.returncode == 0, said
        child_timers, inside = Path(f"/proc/{child}/timers").read_text(), number_inside(child)
        after = program.facts()
        wait_for(lambda: all((path / "tables" / table).exists() for table in ("symbols", "sources")))
        again = subprocess.run(
            command(program.pid, folder / "again.aiflame", "--duration", "0.2s", "--no-seal"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        copied, mapped = len(list((folder / "again.aiflame/binaries").iterdir())), program.mapped()
        yield Seen(aiflame.open(path), said, before, after, inside, child_timers, again, copied, mapped, program.end())
    finally:
        program.close()


def test_its_time_stands_where_it_went_by_its_own_account(seen: Seen) -> None:
    """Of 250 samples, three quarters have a standard error of 3 points."""
    tree = seen.profile.tree("cpu-time")
    heavy, light = time_under(tree, "heavy", "turn"), time_under(tree, "light", "turn")
    assert 0.55 < heavy / (heavy + light) < 0.92
    assert time_under(tree, "late", "turn") > 0


def test_nothing_is_missing(seen: Seen) -> None:
    assert seen.profile.meta.degraded == ()
    assert "notes" not in seen.profile.store.names()
    assert "thread_names" in seen.profile.store.names(), "our Python did not run in the program"


def test_processes_and_threads_have_their_numbers_in_the_container(seen: Seen) -> None:
    assert f"({INSIDE} in its container) since" in seen.said
    assert sorted(seen.profile.table("processes")["pid"]) == [INSIDE, seen.child]
    assert INSIDE in seen.profile.table("threads")["tid"].to_list()


def test_waits_are_those_of_its_own_threads(seen: Seen) -> None:
    """Outside, process 1 is another one."""
    waits = seen.profile.table("waits").join(seen.profile.table("threads"), left_on=["process", "thread"], right_on=["process", "id"])
    waiting = set(waits.filter(pl.col("off_us") > 0)["tid"])
    assert waiting
    assert INSIDE not in waiting


def test_sources_and_functions_are_read_from_its_own_files(seen: Seen) -> None:
    text = (Path(__file__).parent / "programs/contained.py").read_text()
    sources = dict(seen.profile.table("sources").select("path", "text").iter_rows())
    assert sources["/srv/contained.py"] == text
    symbols = seen.profile.table("symbols")
    functions = symbols.filter(pl.col("module").str.starts_with("python") | pl.col("module").str.starts_with("libpython"))["name"]
    assert not functions.is_empty()
    assert not all(name.startswith("[unknown]") for name in functions)


def test_it_is_left_as_it_was(seen: Seen) -> None:
    assert seen.after == seen.before
    assert seen.child_timers == ""
    assert seen.answer["wrong"] == 0


def test_it_gets_no_other_file_of_ours(seen: Seen) -> None:
    assert seen.answer["seen"] == ["folder", "memory"], "it did not look while it had descriptors of ours"
    assert seen.answer["succeeded"] == []


def test_the_collector_is_loaded_once_for_two_recordings(seen: Seen) -> None:
    assert seen.again.returncode == 0, seen.again.stderr
    assert seen.mapped == 1


def test_binaries_are_copied_where_the_container_may_be_gone_before_the_profile_is_sealed(seen: Seen) -> None:
    """The interpreter, libc and the collector at least."""
    assert seen.copied >= 3


def test_a_child_in_another_container_than_the_first_is_refused(tmp_path: Path) -> None:
    program = Contained(tmp_path / "root", "contained.py")
    try:
        with pytest.raises(AiflameError, match=f"process {program.pid} lives in another container than the first one"):
            Member(program.pid, collector_file(), Numbers.of(os.getpid()))
        assert program.end() == {"wrong": 0, "seen": [], "succeeded": []}
    finally:
        program.close()


KILLED = """import os, signal, sys
from aiflame.cli.main import main
from aiflame.recorder.attach import sending
real = sending.{function}

def killed(*arguments):
    result = {first}
    os.kill({pid}, signal.SIGKILL)
    return result or real(*arguments)

sending.{function} = killed
sys.argv[1:] = ["attach", "{pid}", "-o", {path!r}, "--telemetry", "off", "--no-seal", "--duration", "1s"]
sys.exit(main())
"""


@pytest.mark.parametrize(("function", "first"), [("_send", "None"), ("_send_to", "None"), ("_send", "real(*arguments)")])
def test_a_program_that_is_killed_meanwhile_is_one_line(function: str, first: str, tmp_path: Path) -> None:
    """Before its thread is borrowed, while it is, and when it has got the descriptors."""
    program, path = Contained(tmp_path / "root", "contained.py"), tmp_path / "p.aiflame"
    try:
        text = KILLED.format(function=function, first=first, pid=program.pid, path=str(path))
        recorder = subprocess.run([PYTHON, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    finally:
        program.close()
    assert recorder.returncode == 1
    assert recorder.stderr.startswith(f"aiflame: process {program.pid} ") and recorder.stderr.count("\n") == 1, recorder.stderr
    assert not path.exists()


CHANGED = """import ctypes, errno, sys
from aiflame.cli.main import main
from aiflame.recorder.attach import sending
real = sending._libc.syscall

def refused(number, *arguments):
    if number == sending.{call}:
        ctypes.set_errno(errno.EPERM)
        return -1
    return real(number, *arguments)

class Library:
    syscall = staticmethod(refused)

sending._libc = Library
{more}
sys.argv[1:] = ["attach", "{pid}", "-o", {path!r}, "--telemetry", "off", "--no-seal", "--duration", "0.5s"]
sys.exit(main())
"""


@pytest.mark.parametrize(("call", "more"), [("_OPEN_TREE", "sending._APART = 'raise SystemExit(1)'"), ("_GET_DESCRIPTOR", "")])
def test_a_system_that_forbids_it_is_one_line_and_does_no_harm(call: str, more: str, tmp_path: Path) -> None:
    program, path = Contained(tmp_path / "root", "contained.py"), tmp_path / "p.aiflame"
    try:
        before = program.facts()
        text = CHANGED.format(call=call, more=more, pid=program.pid, path=str(path))
        recorder = subprocess.run([PYTHON, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        assert (recorder.returncode, recorder.stderr.count("\n")) == (1, 1), recorder.stderr
        assert "run aiflame in" in recorder.stderr
        assert not path.exists()
        assert program.facts() == before
        assert program.end() == {"wrong": 0, "seen": [], "succeeded": []}
    finally:
        program.close()


def test_a_user_who_may_not_mount_has_a_helper_in_namespaces_of_its_own(tmp_path: Path) -> None:
    program, path = Contained(tmp_path / "root", "contained.py"), tmp_path / "p.aiflame"
    try:
        text = CHANGED.format(call="_OPEN_TREE", more="", pid=program.pid, path=str(path))
        recorder = subprocess.run([PYTHON, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        assert recorder.returncode == 0, recorder.stderr
        assert samples_so_far(path, INSIDE) > 0
        assert program.end()["succeeded"] == []
    finally:
        program.close()


MOUNT, TIMER_CREATE, SOCKET_PAIR = 165, 222, 53
AN_ERROR, THE_END, A_SIGNAL = 0x50001, 0x80000000, 0x30000


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may read filters of system calls")
@pytest.mark.parametrize(
    ("answers", "refusal"),
    [
        ({MOUNT: AN_ERROR, TIMER_CREATE: THE_END}, "would end it for call 222"),
        ({TIMER_CREATE: A_SIGNAL}, "would end it for call 222"),
        ({SOCKET_PAIR: AN_ERROR}, "may not make a socket"),
        ({MOUNT: THE_END}, ""),
    ],
)
def test_filters_of_the_container_are_read_before_anything_is_called(answers: dict[int, int], refusal: str, tmp_path: Path) -> None:
    """The program makes none of these calls by itself."""
    program, path = Contained(tmp_path / "root", "contained.py", answers=answers), tmp_path / "p.aiflame"
    try:
        recorder = subprocess.run(
            command(program.pid, path, "--duration", "0.5s", "--no-seal"), capture_output=True, text=True, timeout=60, check=False
        )
        assert recorder.returncode == (1 if refusal else 0), recorder.stderr
        assert refusal in recorder.stderr
        assert program.end()["wrong"] == 0
    finally:
        program.close()
