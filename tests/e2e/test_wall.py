"""`--wall`: the time that threads spend waiting, with the reason."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder, time_under


def test_waiting_threads_show_the_reason(record: Recorder) -> None:
    run = record(PYTHON, PROGRAMS / "waiting.py", options=("--wall", "99"))
    took = json.loads(run.stdout)
    tree = run.profile().tree("wall-time")
    for function, label in (("waits_for_input", "[I/O]"), ("waits_for_a_lock", "[lock]"), ("sleeps", "[sleep]")):
        spent = time_under(tree, function, metric="wall-time")
        assert spent == pytest.approx(took[function], rel=0.1), function
        assert time_under(tree, function, label, metric="wall-time") / spent > 0.95, function
    works = time_under(tree, "works", metric="wall-time")
    assert time_under(tree, "works", "[sleep]", metric="wall-time") / works < 0.1


def test_threads_that_want_the_gil_show_it_and_the_one_that_has_it_does_not(record: Recorder) -> None:
    run = record(PYTHON, PROGRAMS / "gil.py", options=("--wall", "99"))
    held = int(run.stdout)
    tree = run.profile().tree("wall-time")
    assert time_under(tree, "contends", "[GIL]", metric="wall-time") == pytest.approx(2 * held, rel=0.1)
    assert time_under(tree, "holds", "[sleep]", metric="wall-time") == pytest.approx(held, rel=0.1)
    assert time_under(tree, "holds", "[GIL]", metric="wall-time") / held < 0.1


def test_calls_that_a_signal_would_end_early_take_their_full_time(record: Recorder, tmp_path: Path) -> None:
    source, program = tmp_path / "sleeper.c", tmp_path / "sleeper"
    source.write_text(
        "#include <poll.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'int main(void) { unsigned left = sleep(1); int polled = poll(0, 0, 500); printf("[%u, %d]", left, polled); }\n'
    )
    subprocess.run(["gcc", "-o", str(program), str(source)], check=True)
    run = record(program, options=("--wall", "499"))
    assert json.loads(run.stdout) == [0, 0]
