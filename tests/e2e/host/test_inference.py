"""Steps of inference: one for each call that the program made, prefills apart from decodes, as long as by its own clock."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from recording import PYTHON, Recorder
from torch_programs import needs_torch

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.overview.inference_line import Inference
from aiflame.analyze.overview.scope_line import scope_line
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.context import profile_steps

pytestmark = needs_torch
PROGRAM = Path(__file__).parent / "programs" / "inference.py"
CLOSE = 0.15
"""Of the median by the program's own clock, which counts the clock itself, too."""


def recorded(record: Recorder, name: str) -> tuple[dict[str, Any], Profile]:
    run = record(PYTHON, PROGRAM, name, env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    assert run.status == 0, run.stderr
    own: dict[str, Any] = json.loads(run.stdout)
    return own, run.profile()


def inference(profile: Profile) -> Inference | None:
    return scope_line(profile_analysis(Analysis.of(profile.store)), profile.store.meta).inference


def steps(profile: Profile) -> int:
    return len(profile_steps(Analysis.of(profile.store)).rows)


def test_decode_steps_and_prefills(record: Recorder) -> None:
    own, profile = recorded(record, "decode")
    line = inference(profile)
    assert line is not None and line.decode is not None and line.prefill is not None
    assert (line.decode.steps, line.prefill.steps, line.other, line.requests) == (len(own["decodes"]), len(own["prefills"]), None, 4)
    median = statistics.median(own["decodes"])
    assert line.decode.median_ns == pytest.approx(median, rel=CLOSE)
    assert line.prefill.median_ns == pytest.approx(statistics.median(own["prefills"][1:]), rel=CLOSE)
    assert line.decode.sequences == 2
    assert line.decode.tokens_per_s == pytest.approx(2e9 / median, rel=CLOSE)


def test_batches_are_steps_of_which_nothing_more_is_said(record: Recorder) -> None:
    own, profile = recorded(record, "score")
    line = inference(profile)
    assert line is not None and line.other is not None
    assert (line.decode, line.prefill, line.other.steps, line.growing) == (None, None, len(own["calls"]), False)
    assert line.other.tokens_per_s == 0


def test_training_steps_win_over_calls_of_a_small_module(record: Recorder) -> None:
    own, profile = recorded(record, "train")
    assert steps(profile) == own["steps"]
    assert inference(profile) is None


def test_two_threads_that_infer_have_no_steps(record: Recorder) -> None:
    _, profile = recorded(record, "threads")
    assert steps(profile) == 0
