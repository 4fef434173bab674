"""A planted slowdown of a real program, found by `aiflame gate` over several recordings of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from recording import PYTHON, Recorder

PROGRAM = """
import sys, time

def heavy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def light(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

heavy(float(sys.argv[1]))
light(0.4)
"""
RUNS = 3


def gate(base: Sequence[Path], new: Sequence[Path]) -> tuple[int, dict[str, object]]:
    command = [PYTHON, "-m", "aiflame.cli.main", "gate", *base, "--new", *new, "--json", "--threshold", "elapsed=off"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    return result.returncode, json.loads(result.stdout)


def test_a_planted_slowdown_is_found_and_equal_runs_pass(record: Recorder, tmp_path: Path) -> None:
    """`heavy` takes half as much CPU time again, by its own clock, in one turn.

    Turns of a few of the kernel's clock ticks (10 ms each on some machines) would beat with the sampler.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    base, same, slow = ([record(PYTHON, program, each).path for _ in range(RUNS)] for each in ("0.8", "0.8", "1.2"))
    status, answer = gate(base, slow)
    assert status == 3
    slower = {(one["metric"], one["item"]): one["change"] for one in answer["measures"] if one["outcome"] == "slower"}  # type: ignore[attr-defined]
    assert 0.25 < slower["cpu", ""] < 0.4
    assert [item for metric, item in slower if metric == "function"] == ["heavy (program.py)"], answer["measures"]
    assert 0.4 < slower["function", "heavy (program.py)"] < 0.6
    status, answer = gate(base, same)
    assert (status, answer["regressions"]) == (0, 0)
