"""`aiflame agent`: programs are found and recorded as they run, and ranges of the store are opened like profiles."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recording import PYTHON, time_under

import aiflame
from aiflame.profile.folder.door import Folder
from aiflame.store.layout import hours, parts
from aiflame.store.reading import read_hour
from aiflame.store.tables import Tables, together

RATE = 997
TICKS = 100
"""Of the kernel in a second, at least: it takes samples of CPU time at these, however high the rate is."""
BUSY = """import time
def {first}():
    total = 0
    for number in range(6000):
        total += number * number
def {second}():
    total = 0
    for number in range(2000):
        total += number * number
print("begun", flush=True)
until = time.monotonic() + 300
while time.monotonic() < until:
    {first}()
    {second}()
"""


@contextmanager
def programs(folder: Path, **texts: str) -> Iterator[list[subprocess.Popen[str]]]:
    started = []
    for name, text in texts.items():
        path = folder / f"{name}_{folder.name}.py"
        path.write_text(text)
        started.append(subprocess.Popen([PYTHON, path], stdout=subprocess.PIPE, text=True))
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def agent(store: Path, *options: str) -> subprocess.Popen[str]:
    """Records only the programs of the test, which have the name of its folder in theirs."""
    ours = ("--command", f"_{re.escape(store.parent.name)}", "--budget", "50%", "--cpu-rate", str(RATE))
    command = [PYTHON, "-m", "aiflame.cli.main", "agent", "--store", str(store), *ours, *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors
    return errors


def await_windows(store: Path, count: int, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while len(list(store.glob("waiting/*/done"))) < count:
        assert time.monotonic() < until, list(store.rglob("*"))
        time.sleep(0.1)


def tables(store: Path) -> Tables:
    folder = Folder.open(store)
    return together(read_hour(folder, hour) for hour in hours(folder))


def share(profile: aiflame.api.Profile, one: str, other: str) -> float:
    tree = profile.tree("cpu-time")
    times = [time_under(tree, name) for name in (one, other)]
    return times[0] / max(sum(times), 1)


def near(part: float, store: Path) -> object:
    """Five points, and three standard deviations more: a busy machine leaves the programs few samples."""
    recorded_s = int(tables(store)["values"]["value"].sum()) / 1e9
    return pytest.approx(part, abs=0.05 + 3 * (0.1875 / max(recorded_s / 2 * TICKS, 1)) ** 0.5)


def test_two_programs_have_their_shares_and_the_function_that_changed_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with programs(tmp_path, old=BUSY.format(first="heavy", second="light"), new=BUSY.format(first="light", second="heavy")) as started:
        running = agent(store, "--window", "2s", "--every", "2s")
        await_windows(store, 4)
        second = agent(store)
        assert second.wait(60) == 1
        assert second.communicate()[1] == f"aiflame: another agent writes {store}: end it first, or name another store with --store\n"
        errors = end(running)
        assert "2 processes" in errors and ", 0 failed" in errors, errors
        for process in started:
            assert process.poll() is None
            assert Path(f"/proc/{process.pid}/timers").read_text() == ""
    modes = {path: path.stat().st_mode & 0o777 for path in (store, *store.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert list(store.glob("waiting/*")) == []
    processes = tables(store)["processes"]
    assert set(processes["pid"]) == {process.pid for process in started}
    assert set(processes["obstacle"]) == {""}

    sides = [f"{store}@-1h,command={name}_" for name in ("old", "new")]
    old, new = map(aiflame.open, sides)
    assert share(old, "heavy", "light") == near(0.75, store)
    assert share(new, "heavy", "light") == near(0.25, store)
    whole = aiflame.open(f"{store}@-1h")
    assert len(whole.table("processes")) == 2
    assert time_under(whole.tree("cpu-time"), "heavy") == sum(time_under(side.tree("cpu-time"), "heavy") for side in (old, new))

    command = [PYTHON, "-m", "aiflame.cli.main", "diff", *sides, "--by", "function", "--json", "-n", "99"]
    (compared,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["differences"]
    changed = {row["name"]: row["difference"] for row in compared["rows"]}
    assert changed["heavy"] < 0 < changed["light"]
    assert {row["name"] for row in compared["rows"][:5]} >= {"heavy", "light"}


def children(pid: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_an_agent_that_is_killed_at_any_moment_goes_on_after_its_restart(tmp_path: Path) -> None:
    """With all its children, too. Its windows are kept, and nothing stays in the programs."""
    store = tmp_path / "store"
    chance = random.Random(7)
    added: set[int] = set()
    with programs(tmp_path, one=BUSY.format(first="heavy", second="light")) as (program,):
        for _ in range(3):
            running = agent(store, "--window", "1s", "--every", "1s", "--write-every", "2s")
            while not list(store.glob("waiting/*/w.aiflame/control")):
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 4))
            running.send_signal(signal.SIGSTOP)
            for pid in (*children(running.pid), running.pid):
                os.kill(pid, signal.SIGKILL)
            running.wait()
            kept = set(tables(store)["windows"]["window"])
            assert added <= kept
            added = kept
        recorded = len(list(store.glob("waiting/*/done")))
        errors = end(agent_with_windows(store, recorded))
        assert program.poll() is None
        assert Path(f"/proc/{program.pid}/timers").read_text() == ""
    windows = tables(store)["windows"]
    assert added < set(windows["window"])
    assert len(windows) >= len(added) + recorded, errors
    assert list(store.glob("waiting/*")) == []
    assert list(store.rglob("*.partial")) == []
    assert share(aiflame.open(f"{store}@-1h"), "heavy", "light") == near(0.75, store)


def agent_with_windows(store: Path, before: int) -> subprocess.Popen[str]:
    running = agent(store, "--window", "1s", "--every", "1s")
    await_windows(store, before + 2)
    return running


def test_a_hostile_name_does_no_harm(tmp_path: Path) -> None:
    store = tmp_path / "store"
    name = f"x_{tmp_path.name}\n\x1b[2J;{'y' * 200}.py"
    path = tmp_path / name
    path.write_text("import time; time.sleep(300)")
    process = subprocess.Popen([PYTHON, path], stdout=subprocess.DEVNULL)
    try:
        running = agent(store, "--window", "1s", "--every", "2s")
        await_windows(store, 1)
        assert "\x1b" not in end(running)
    finally:
        process.kill()
        process.wait()
    command = [PYTHON, "-m", "aiflame.cli.main", "top", f"{store}@-1h"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "\x1b" not in result.stdout + result.stderr
    listed = subprocess.run([*command[:3], "agent", "--list", "--store", str(store)], capture_output=True, text=True, check=True)
    assert "\x1b" not in listed.stdout
    folder = Folder.open(store)
    assert all(len(parts(folder, hour)) == 1 for hour in hours(folder))
