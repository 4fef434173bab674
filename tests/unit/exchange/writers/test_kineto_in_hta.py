"""HTA (Holistic Trace Analysis) on our traces: the figures of our own profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from exported_profiles import STEPS, training

pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")


def analysed(file: Path) -> Any:
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_files={0: str(file)}, trace_dir="/")


def exported(path: Path, file: Path) -> Path:
    said = run_aiflame("export", str(path), "--to", "kineto", "-o", str(file))
    assert said.status == 0, said.err
    return file


def test_it_finds_the_time_of_a_recordings_kernels(tmp_path: Path) -> None:
    profile = training(tmp_path)
    trace = analysed(exported(profile.path, tmp_path / "run.json"))
    (row,) = trace.get_temporal_breakdown(visualize=False).to_dict("records")
    steps = STEPS - 1  # HTA leaves out the last step
    assert (row["compute_time(us)"], row["non_compute_time(us)"]) == (70 * steps + sum(range(steps)), 30 * steps)


def test_it_finds_the_same_after_the_trace_was_read_and_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = exported(training(tmp_path).path, tmp_path / "first.json")
    second = exported(first, tmp_path / "second.json")
    answers = []
    for trace in map(analysed, (first, second)):
        kinds, kernels = trace.get_gpu_kernel_breakdown(visualize=False)
        answers.append([table.to_dict("records") for table in (trace.get_temporal_breakdown(visualize=False), kinds, kernels)])
    assert answers[0] == answers[1]
    assert {row["name"] for row in answers[0][2]} >= {"sgemm", "softmax"}
