"""`--wall`: time that threads spend waiting, and what they wait on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder, time_under


def test_waiting_threads_show_what_they_wait_on(record: Recorder) -> None:
    run = record(PYTHON, PROGRAMS / "waiting.py", options=("--wall", "99"))
    tree = run.profile().tree("wall-time")
    for function, label in (("waits_for_input", "[I/O]"), ("waits_for_a_lock", "[lock]"), ("sleeps", "[sleep]")):
        spent = time_under(tree, function, metric="wall-time")
        assert spent == pytest.approx(2e9, rel=0.15), function
        assert time_under(tree, function, label, metric="wall-time") / spent > 0.95, function
    works = time_under(tree, "works", metric="wall-time")
    assert time_under(tree, "works", "[sleep]", metric="wall-time") / works < 0.1


def test_a_thread_that_wants_the_gil_shows_it(record: Recorder) -> None:
    code = """
import threading, time
def contends():
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
threads = [threading.Thread(target=contends) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    tree = record(PYTHON, "-c", code, options=("--wall", "99")).profile().tree("wall-time")
    spent = time_under(tree, "contends", metric="wall-time")
    # One of three holds the GIL at any time.
    assert time_under(tree, "contends", "[GIL]", metric="wall-time") / spent == pytest.approx(2 / 3, abs=0.12)


def test_calls_that_a_signal_would_end_early_take_their_full_time(record: Recorder, tmp_path: Path) -> None:
    source, program = tmp_path / "sleeper.c", tmp_path / "sleeper"
    source.write_text(
        "#include <poll.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'int main(void) { unsigned left = sleep(1); int polled = poll(0, 0, 500); printf("[%u, %d]", left, polled); }\n'
    )
    subprocess.run(["gcc", "-o", str(program), str(source)], check=True)
    run = record(program, options=("--wall", "499"))
    assert json.loads(run.stdout) == [0, 0]
