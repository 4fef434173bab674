"""Three million calls of a model: their records go to the profile's files, and stay in nobody's memory."""

from __future__ import annotations

from pathlib import Path

from recording import PYTHON, Recorder
from torch_programs import needs_torch

pytestmark = needs_torch
PROGRAM = Path(__file__).parent / "programs" / "many_calls.py"
CALLS = 3_000_000
BYTES = 32
"""Of a record: all together are 96 MB."""


def test_calls_of_a_model_do_not_fill_the_programs_memory(record: Recorder) -> None:
    run = record(PYTHON, PROGRAM, str(CALLS), env={"OMP_NUM_THREADS": "1"})
    assert run.status == 0, run.stderr
    (calls,) = run.path.glob("spool/*/model_calls.table")
    assert calls.stat().st_size >= CALLS * BYTES
    assert int(run.stdout) < CALLS * BYTES / 10
