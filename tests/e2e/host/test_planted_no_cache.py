"""Text that is made without a cache of keys and values is a finding; with one, the same text is none."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recording import Recorder

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.advice import fix
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.inference_line import Inference
from aiflame.analyze.overview.summary import summarize

PROGRAM = Path(__file__).parent / "programs/planted_no_cache.py"
GUESTS = Path(os.environ.get("AIFLAME_GUESTS", Path(__file__).resolve().parents[3] / ".guests"))


@functools.cache
def python_with_transformers() -> str:
    for python in (str(GUESTS / "python/bin/python"), sys.executable):
        if (
            Path(python).exists()
            and subprocess.run([python, "-c", "import transformers, torch"], capture_output=True, check=False).returncode == 0
        ):
            return python
    pytest.skip("transformers is not installed")


def generated(record: Recorder, cache: str) -> tuple[list[Finding], Inference]:
    run = record(python_with_transformers(), PROGRAM, cache, env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    assert run.status == 0, run.stderr
    profile = run.profile()
    summary = summarize(profile.store, profile.meta)
    assert summary.scope.inference is not None
    return [one for one in findings(profile.store, summary, limit=99) if one.kind == "no-kv-cache"], summary.scope.inference


def test_tokens_that_are_given_again_are_named(record: Recorder) -> None:
    (finding,), line = generated(record, "without")
    assert line.growing
    assert line.growth is not None
    assert line.growth.many_tokens > 4 * line.growth.few_tokens
    assert "each of 119 calls is given all tokens again and one more" in finding.sentence
    assert "use_cache=True" in fix(finding)


def test_a_model_with_a_cache_is_not_named(record: Recorder) -> None:
    listed, line = generated(record, "with")
    assert listed == []
    assert line.growth is None
    assert line.decode is not None
    assert (line.decode.steps, line.decode.sequences) == (119, 4)
    assert line.decode.p99_ns >= line.decode.median_ns
