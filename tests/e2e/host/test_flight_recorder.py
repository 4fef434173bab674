"""`aiflame record --last`: a program that goes from one function to another. When the window has passed, only the second is there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from recording import PYTHON

import aiflame
from aiflame.attribute.tree import Tree
from interpreters import interpreter

LAST_S = 2
PROGRAM = """
import sys, threading, time
import aiflame
def before(until):
    while time.thread_time() < until: pass
def after():
    while True: sum(range(1000))
before(time.thread_time() + 0.3)
threading.Thread(target=after, daemon=True).start()
time.sleep({last} + 0.5)
print("ready", flush=True)
for line in sys.stdin:
    if line == "keep\\n":
        print(aiflame.keep("loss is NaN"), flush=True)
    elif line == "memory\\n":
        try: bytearray(1 << 62)
        except MemoryError: print("caught", flush=True)
    else:
        sys.exit(int(line))
"""


class Ring:
    """A program that goes on in its second function until our word, so that any window has it, and its recorder."""

    def __init__(self, folder: Path, *options: str, python: str = sys.executable) -> None:
        self.folder, self.path = folder, folder / "ring.aiflame"
        command = [PYTHON, "-m", "aiflame.cli.main", "record", "--last", f"{LAST_S}s", "-o", str(self.path), *options]
        program = [python, "-c", PROGRAM.format(last=LAST_S)]
        self.recorder = subprocess.Popen([*command, "--", *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.recorder.stdout is not None
        return self.recorder.stdout.readline().strip()

    def say(self, text: str) -> None:
        assert self.recorder.stdin is not None
        self.recorder.stdin.write(f"{text}\n")
        self.recorder.stdin.flush()

    def kept(self, cause: str, patience_s: float = 120) -> Path:
        """The profile that was made for this cause, when it is complete."""
        until = time.monotonic() + patience_s
        while not (profiles := [path for path in self.folder.glob(f"ring-*-{cause}.aiflame") if (path / "telemetry").exists()]):
            assert time.monotonic() < until, [path.name for path in self.folder.iterdir()]
            time.sleep(0.05)
        return profiles[0]


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    running = Ring(tmp_path, "--on", "signal:USR2")
    yield running
    running.recorder.kill()
    running.recorder.wait()
    assert running.recorder.stdin is not None
    running.recorder.stdin.close()


def functions(tree: Tree) -> set[str]:
    return set(tree.frames["name"].to_list())


def is_window(path: Path) -> bool:
    """Only the second function is there, for as long as the window at most; the CPU time is that of the samples."""
    profile = aiflame.open(path)
    kept, samples, tree = profile.meta.kept, profile.table("cpu_samples"), profile.tree("cpu-time")
    assert kept is not None
    assert kept.seconds <= LAST_S + 0.001
    assert samples["time_ns"].is_between(kept.begin_ns, kept.end_ns).all()
    assert tree.total("cpu-time") == int((samples["weight"].cast(int) * samples["period_ns"]).sum())
    return "after" in functions(tree) and "before" not in functions(tree)


def test_the_window_is_kept_on_request_and_at_the_end(ring: Ring) -> None:
    keep = [PYTHON, "-m", "aiflame.cli.main", "keep"]
    asked = subprocess.run([*keep, str(ring.recorder.pid), "slow", "since 14:00"], capture_output=True, text=True, check=True)
    assert "slow-since-14-00" in asked.stdout
    assert is_window(Path(asked.stdout.strip()))
    ring.say("keep")
    assert ring.answer() == "True"
    ring.kept("loss-is-NaN")
    ring.recorder.send_signal(signal.SIGUSR2)  # the program has no handler: it would die of it
    ring.kept("signal")
    ring.say("3")
    assert ring.recorder.wait() == 3
    profile = aiflame.open(ring.path)
    assert profile.meta.kept is not None
    assert profile.meta.kept.cause == "the program ended with status 3"


def test_nothing_is_lost_when_the_recorder_and_the_program_are_killed(ring: Ring) -> None:
    children = Path(f"/proc/{ring.recorder.pid}/task/{ring.recorder.pid}/children").read_text().split()
    program = int(children[0])
    ring.recorder.kill()
    ring.recorder.wait()
    os.kill(program, signal.SIGKILL)
    while Path(f"/proc/{program}/maps").exists() and Path(f"/proc/{program}/maps").read_bytes():
        time.sleep(0.02)
    assert is_window(ring.path)
    refused = subprocess.run([PYTHON, "-m", "aiflame.cli.main", "keep", str(program)], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "process" in refused.stderr


UNTIL_KEPT = """
import glob, sys, time
def until_kept(name):
    until = time.monotonic() + 120
    while not glob.glob(f"{sys.argv[1]}/ring-*-{name}.aiflame"):
        if time.monotonic() > until: sys.exit(f"{name} was not kept")
        time.sleep(0.05)
"""
MEMORY = f"""{UNTIL_KEPT}
import subprocess
try: bytearray(1 << 60)
except MemoryError: pass
until_kept("out-of-memory")
subprocess.run([sys.executable, "-c", "raise ValueError('planted')"])
until_kept("exception")
"""


def test_lack_of_memory_and_uncaught_exceptions_are_told_by_the_program(tmp_path: Path) -> None:
    """The first is caught, which CPython shows from 3.12 on."""
    command = [PYTHON, "-m", "aiflame.cli.main", "record", "--last", "9s", "--no-seal", "-o", str(tmp_path / "ring.aiflame")]
    python = interpreter("3.13")
    if python is None:
        pytest.skip("there is no CPython 3.13")
    result = subprocess.run([*command, "--", python, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True)
    messages = [line for line in result.stderr.splitlines() if "kept the last" in line]
    assert [line.split(":")[1].strip() for line in messages] == ["MemoryError", "ValueError"]
    assert len(list(tmp_path.glob("ring-*.aiflame"))) == 2


STEPS = f"""{UNTIL_KEPT}
import aiflame
for number in range(30):
    with aiflame.region("step"):
        time.sleep(1.5 if number == 25 else 0.02)
until_kept("hang")
"""


def test_a_slow_step_and_the_lack_of_steps_are_kept(tmp_path: Path) -> None:
    options = ["--last", f"{LAST_S}s", "--on", "slow-step:20x", "--on", "hang:3s", "-o", str(tmp_path / "ring.aiflame")]
    run = subprocess.run(
        [PYTHON, "-m", "aiflame.cli.main", "record", *options, "--", sys.executable, "-c", STEPS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (slow,), (hang,) = (list(tmp_path.glob(f"ring-*-{cause}.aiflame")) for cause in ("slow-step-25", "hang"))
    assert f"-> {slow}" in run.stderr and f"-> {hang}" in run.stderr
    profile = aiflame.open(slow)
    assert profile.meta.kept is not None
    slowness = re.match(r"step 25 took (\d+\.?\d*) s", profile.meta.kept.cause)
    assert slowness and float(slowness[1]) >= 1.5, profile.meta.kept.cause
    ends = profile.table("region_ends")["end_ns"]
    took = (profile.table("region_ends").sort("end_ns")["end_ns"] - profile.table("regions").sort("begin_ns")["begin_ns"]).to_list()
    assert ends.max() <= profile.meta.kept.end_ns + 1e6 and max(took) >= 1.5e9 and took[-1] == max(took)
    assert len(aiflame.open(hang).table("regions")) < 30
