"""A jitted function that JAX traces again and again is named with the argument that changes. One with two sizes is silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest_python import python_with
from recording import Recorder, all_findings

from aiflame.analyze.finding import Finding

PROGRAM = Path(__file__).parent / "programs/planted_retraces.py"


def retraces(record: Recorder, function: str) -> tuple[list[Finding], int]:
    """Findings about that, and how often a function was traced again."""
    run = record(python_with("jax"), PROGRAM, function, env={"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "0"})
    assert run.status == 0, run.stderr
    profile = run.profile()
    listed = all_findings(profile)
    again = profile.table("jit_traces").height if profile.store.has("jit_traces") else 0
    return [one for one in listed if one.kind.startswith(("retracing", "recompiling"))], again


@pytest.mark.parametrize(
    ("function", "kind", "because"),
    [
        ("sizes", "size", "5 times, because dimension 0 of batch['x'] changes (2, 3, 4, 5 …)"),
        ("values", "value", "5 times, because scale changes (0.0, 0.125, 0.25, 0.375 …)"),
        ("types", "type", "6 times, because the dtype of x changes (float32, int32, int16, uint8 …)"),
        ("functions", "function", "5 times, because it is a new function each time"),
    ],
)
def test_the_argument_that_changes_is_named(record: Recorder, function: str, kind: str, because: str) -> None:
    (finding,), _ = retraces(record, function)
    assert finding.kind == f"retracing-{kind}"
    assert because in finding.sentence
    file, _, line = finding.view.place.rpartition(":")
    assert file == str(PROGRAM)
    lines = PROGRAM.read_text().splitlines()
    assert any(one.endswith(f"# planted {function}") for one in lines[int(line) - 1 : int(line) + 2])


def test_near_misses_are_not_named(record: Recorder) -> None:
    """Calls with one shape trace nothing again, calls with two do so once."""
    assert retraces(record, "near_misses") == ([], 1)
