"""A retrace lasts as long as the call around it, which is one of the same process that had not returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from written_programs import Program

from aiflame.analyze.retraces import retraces
from aiflame.attribute.analysis import Analysis


def lasted(path: Path, calls: list[tuple[int, int, int]], trace: tuple[int, int]) -> tuple[int, int]:
    """`calls`: thread, begin and end of each."""
    program = Program()
    program.thread("worker")
    of_calls: list[dict[str, Any]] = [{"thread": thread, "function": 1, "begin_ns": begin, "end_ns": end} for thread, begin, end in calls]
    row = {"name": "step", "file": "/app/train.py", "line": 3, "change": "shape", "argument": "x", "before": "2,8", "now": "3,8"}
    program.tables |= {"jit_calls": of_calls, "jit_traces": [{**row, "begin_ns": trace[0], "end_ns": trace[1]}]}
    rows = retraces(Analysis(program.profile(path)))
    assert rows.select("change", "was").rows() == [("dimension 0 of x changes", "2")]
    return rows.select("begin_ns", "end_ns").row(0)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([(1, 100, 200), (1, 300, 400), (1, 500, 600)], (300, 400)),
        ([(1, 300, 400), (2, 250, 900)], (300, 400)),
        ([(1, 300, 310), (2, 250, 900)], (250, 900)),
        ([(1, 300, 330), (1, 360, 400)], (320, 350)),
        ([], (320, 350)),
    ],
    ids=["one of several", "the shorter of two threads", "the thread that has not returned", "none around it", "no calls"],
)
def test_a_retrace_lasts_as_long_as_the_call_around_it(
    tmp_path: Path, calls: list[tuple[int, int, int]], expected: tuple[int, int]
) -> None:
    assert lasted(tmp_path, calls, (320, 350)) == expected
