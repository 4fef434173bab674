"""Every report of every kind of file: rows, or the sentence that says why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

import aiflame
from aiflame.analyze.stats.table import REPORTS

TRACES = Path(__file__).parents[3] / "data" / "traces"
FILES = [
    min((file for file in folder.iterdir()), key=lambda file: file.stat().st_size) for folder in sorted(TRACES.iterdir()) if folder.is_dir()
]
"""The smallest of each format."""
NEEDS_WORK = {"hta.launches", "nsys.cuda-gpu-kern-sum", "tracelens.gpu-timeline", "tracelens.ops-summary"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_report_has_rows_or_a_reason(file: Path) -> None:
    profile = aiflame.open(file)
    rows = {name: profile.stats(name) for name in REPORTS}
    assert all(frame.columns for frame in rows.values())
    assert all(REPORTS[name].empty for name, frame in rows.items() if frame.is_empty())
    if not (profile.store.has("kernels") or profile.store.has("copies")):
        assert {name for name in NEEDS_WORK if not rows[name].is_empty()} == set()


def test_a_gpu_trace_fills_the_reports_of_devices() -> None:
    profile = aiflame.open(TRACES / "kineto" / "torch2.11_h200.json.gz")
    assert {name for name in NEEDS_WORK if profile.stats(name).is_empty()} == set()
