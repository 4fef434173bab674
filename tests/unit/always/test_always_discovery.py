"""Processes are found as they start, by the libraries that they use."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiflame.always.discovery import _OURS, Discovery, Filters, Found

SLEEP = "import sys, time; print('begun', flush=True); time.sleep(60)"


def started(*command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def through_a_shell(*words: str) -> list[str]:
    """A grandchild: children of the agent are its own work."""
    return ["sh", "-c", '"$@" & wait', "sh", *words]


def ended(process: subprocess.Popen[str]) -> None:
    subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=False)
    process.wait()


def pids_of(marker: str) -> list[int]:
    processes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] != b"sh" and marker.encode() in words:
                processes.append(int(folder.name))
    return processes


def test_python_is_found_and_other_programs_are_not(tmp_path: Path) -> None:
    marker = tmp_path.name
    python = started(*through_a_shell(sys.executable, "-c", SLEEP, marker))
    other = started(*through_a_shell("tail", "-n", "1", "-f", __file__, f"--pid={python.pid}"))
    try:
        processes = Discovery(Filters()).look(0)
        (pid,) = pids_of(marker)
        assert pid in {one.pid for one in processes}
        assert not {one.pid for one in processes} & set(pids_of(f"--pid={python.pid}"))
        assert [one.pid for one in Discovery(Filters(command=f"time.sleep.* {marker}$")).look(0)] == [pid]
        assert Discovery(Filters(command=marker, cgroup="/no/such/group")).look(0) == []
        assert [one.pid for one in Discovery(Filters(command=marker, cgroup="/")).look(0)] == [pid]
    finally:
        ended(python)
        ended(other)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_program_that_becomes_python_later_is_found(tmp_path: Path) -> None:
    marker = tmp_path.name
    go = tmp_path / "go"
    text = f'echo begun; while [ ! -e "{go}" ]; do sleep 0.05; done; exec "{sys.executable}" -c "import time; time.sleep(60)" {marker}'
    process = started("sh", "-c", f"sh -c '{text}' & wait")
    try:
        discovery = Discovery(Filters(command=f"{marker}$"))
        assert discovery.look(0) == []
        go.touch()
        until(lambda: bool(pids_of(marker)))
        assert [one.pid for one in discovery.look(0.2)] == pids_of(marker)
        assert discovery.look(9.0) == []
    finally:
        ended(process)


def test_a_program_without_python_is_looked_at_ever_more_seldom() -> None:
    process = started(*through_a_shell("sh", "-c", "echo begun; sleep 60"))
    try:
        discovery = Discovery(Filters())
        looked: list[tuple[int, int]] = []
        original = discovery._wanted

        def wanted(pid: int) -> bool:
            looked.append((pid, now))
            return original(pid)

        discovery._wanted = wanted  # type: ignore[method-assign]
        for now in range(100):
            discovery.look(float(now))
        assert [at for pid, at in looked if pid == process.pid] == [0, 1, 2, 4, 8, 16, 32, 64]
    finally:
        ended(process)


def test_two_hundred_that_come_and_go_are_all_counted(tmp_path: Path) -> None:
    """In batches, each of which goes when it was looked at; none notices."""
    marker = tmp_path.name
    batch = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-S', '-E', '-c', 'print(flush=True); input()', sys.argv[1]]\n"
        "running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(40)]\n"
        "for one in running:\n"
        "    one.stdout.readline()\n"
        "print('begun', flush=True)\n"
        "input()\n"
        "for one in running:\n"
        "    one.communicate('go\\n')\n"
        "sys.exit(any(one.returncode for one in running))\n"
    )
    discovery = Discovery(Filters(command=f"input\\(\\) {marker}$"))
    seen: list[Found] = []
    for number in range(5):
        process = subprocess.Popen([sys.executable, "-c", batch, marker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        seen += discovery.look(float(number))
        process.communicate("go\n")
        assert process.returncode == 0
    discovery.look(6.0)
    assert len({one.key for one in seen}) == len(seen) == 200
    assert {one.key for one in discovery.ended} == {one.key for one in seen}
    assert discovery.found == {}


def test_processor_time_is_read_again(tmp_path: Path) -> None:
    marker = tmp_path.name
    process = started(*through_a_shell(sys.executable, "-c", "print('begun', flush=True)\nwhile True: pass", marker))
    try:
        discovery = Discovery(Filters(command=f"{marker}$"))
        (processes,) = discovery.look(0)
        before = processes.cpu_s

        def grown() -> bool:
            discovery.refresh(5.0)
            return processes.cpu_s > before

        until(grown)
        assert processes.last_s == 5.0
        ended(process)
        until(lambda: not pids_of(marker))
        discovery.refresh(6.0)
        assert discovery.ended == [processes]
    finally:
        ended(process)


def test_a_program_that_becomes_another_one_is_another_one(tmp_path: Path) -> None:
    """Python calls exec, with another program of Python, as soon as a file appears."""
    marker = tmp_path.name
    go = tmp_path / "go"
    text = (
        "import os, sys, time\nprint('begun', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        f"os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}, 'second'])"
    )
    process = started(*through_a_shell(sys.executable, "-c", text, marker))
    try:
        discovery = Discovery(Filters(command=f" {marker}"))
        (first,) = discovery.look(0)
        assert discovery.is_there(first, 1.0)
        go.touch()
        until(lambda: bool(pids_of("second")))
        discovery.refresh(5.0)
        assert discovery.ended == [first] and discovery.found == {}
        (second,) = discovery.look(6.0)
        assert (second.pid, second.start_ticks) == (first.pid, first.start_ticks)
        assert second.key != first.key
        assert not discovery.is_there(first, 7.0) and discovery.is_there(second, 7.0)
    finally:
        ended(process)


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("/x/bin/aiflame agent", True),
        ("aiflame", True),
        ("/x/bin/python /x/bin/aiflame top", True),
        ("python -X dev -u -m aiflame.cli.main agent", True),
        ("python train.py --profiler aiflame", False),
        ("python train.py aiflame", False),
        ("python -m torch.distributed.run /data/aiflame", False),
        ("python /home/me/aiflame/train.py", False),
    ],
)
def test_our_own_commands_are_told_by_their_first_words(command: str, ours: bool) -> None:
    assert bool(_OURS.match(command.replace(" ", "\0").encode() + b"\0")) == ours
