"""Text that is made without a cache of keys and values is a finding; with one, the same text is none."""

from __future__ import annotations

from pathlib import Path

from guest_python import python_with
from recording import Recorder, summary_and_findings

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.advice import fix
from aiflame.analyze.overview.inference_line import Inference

PROGRAM = Path(__file__).parent / "programs/planted_no_cache.py"


def generated(record: Recorder, cache: str) -> tuple[list[Finding], Inference]:
    env = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    run = record(python_with("transformers", "torch"), PROGRAM, cache, env=env)
    assert run.status == 0, run.stderr
    summary, listed = summary_and_findings(run.profile())
    assert summary.scope.inference is not None
    return [one for one in listed if one.kind == "no-kv-cache"], summary.scope.inference


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
