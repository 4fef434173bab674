"""A function that is compiled again and again is named with the argument that changes. One that is compiled once or twice is silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import PYTHON, Recorder, all_findings
from torch_programs import needs_torch

from aiflame.analyze.finding import Finding

pytestmark = needs_torch

PROGRAM = Path(__file__).parent / "programs/planted_recompiles.py"


def recompiles(record: Recorder, function: str) -> tuple[list[Finding], int]:
    """Findings about that, and how often a function was compiled again."""
    run = record(PYTHON, PROGRAM, function)
    assert run.status == 0, run.stderr
    profile = run.profile()
    listed = all_findings(profile)
    again = profile.table("recompilations").height if profile.store.has("recompilations") else 0
    return [one for one in listed if one.kind.startswith("recompiling")], again


@pytest.mark.parametrize(
    ("function", "kind", "because"),
    [
        ("sizes", "recompiling-size", "6 times, because dimension 0 of x changes (2, 3, 4, 5 …)"),
        ("values", "recompiling-value", "5 times, because scale changes (True, 2, 3.5, 4.5 …)"),
        ("attributes", "recompiling-value", "times, because self.calls changes (0, 1, 2, 3 …)"),
    ],
)
def test_the_argument_that_changes_is_named(record: Recorder, function: str, kind: str, because: str) -> None:
    (finding,), _ = recompiles(record, function)
    assert finding.kind == kind
    assert because in finding.sentence
    file, _, line = finding.view.place.rpartition(":")
    assert file == str(PROGRAM)
    assert PROGRAM.read_text().splitlines()[int(line) - 1].endswith("# planted")


def test_near_misses_are_not_named(record: Recorder) -> None:
    """Calls with one shape compile nothing again, calls with many make the size dynamic once."""
    assert recompiles(record, "near_misses") == ([], 1)
