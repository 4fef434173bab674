"""Inference of models whose calls are made: their kinds and rates, the slowest steps, and the cost of tokens that are given again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from stories import MAIN, US, Story

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.inference_line import Inference
from aiflame.analyze.overview.scope_line import scope_line
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.scope import analysis_of
from aiflame.profile.folder.meta import Clocks, Meta

Call = tuple[str, int, int, float]
"""Layer, sequences, tokens of all of them, and how long it takes in microseconds."""
ENCODER, DECODER, VIT = "model/encoder", "model", "vit"


def called(calls: Sequence[Call], path: Path, *, after: float = 0) -> tuple[Inference, list[Finding]]:
    """Each call launches a kernel that takes all of its time. `after`: so long the program chooses a token between two calls."""
    story = Story()
    now = 1000.0
    for layer, sequences, tokens, took in calls:
        story.layer_work(now, now, now + took, "model", *([layer] if "/" in layer else []), name="sgemm")
        row = {"thread": 1, "layer": story.layer(layer), "sequences": sequences, "tokens": tokens, "begin_ns": round(now * US)}
        story.tables["model_calls"].append({**row, "end_ns": round((now + took) * US)})
        now += took + after
    story.met(now, MAIN, clock=0)
    meta = Meta(started=Clocks(0, 0, 0), ended=Clocks(round(now * US), 0, 0), complete=True)
    analysis = analysis_of(story.profile(path, meta), whole_run=False)
    line = scope_line(profile_analysis(analysis), meta)
    assert line.inference is not None
    return line.inference, findings(analysis, summarize(analysis, meta), 99)


def without_cache(each: float, more: int = 1, steps: int = 100, sequences: int = 1) -> list[Call]:
    """The first is given 20 tokens of each sequence, and takes a millisecond; each token more costs `each` µs."""
    return [(DECODER, sequences, sequences * (20 + more * step), 1000 + each * more * step) for step in range(steps)]


def test_tokens_that_are_given_again_cost_what_the_steps_take_longer(tmp_path: Path) -> None:
    """The first step warms up. The tenth of the other 99 with fewest tokens has 21 to 29, and takes 1.5 ms in the middle."""
    inference, listed = called(without_cache(100), tmp_path)
    assert inference.growing
    assert inference.growth is not None
    assert (inference.growth.few_tokens, inference.growth.few_ns) == (25, 1500 * US)
    assert (inference.growth.many_tokens, inference.growth.many_ns) == (115, 10_500 * US)
    took = sum(1000 + 100 * step for step in range(1, 100)) * US
    assert inference.growth.more_ns == took - 99 * 1500 * US
    (finding,) = [one for one in listed if one.kind == "no-kv-cache"]
    assert finding.sentence == (
        "The model makes tokens without a cache: each of 99 calls is given all tokens again and one more, and takes 1.5 ms with 25 tokens,"
        " 10.5 ms with 115 tokens; the tokens given again cost 75% of the time"
    )
    assert finding.share == pytest.approx((took - 99 * 1500 * US) / took)


def test_tokens_of_several_sequences_count_for_one_of_them(tmp_path: Path) -> None:
    inference, listed = called(without_cache(100, sequences=4), tmp_path)
    assert inference.growth is not None
    assert (inference.growth.few_tokens, inference.growth.many_tokens) == (25, 115)
    assert "no-kv-cache" in [one.kind for one in listed]


def disturbed(times: int) -> list[Call]:
    """So many calls have an input of their own: two of the 99 differences each are not one token."""
    calls = without_cache(100)
    for number in range(times):
        layer, sequences, _, took = calls[10 * number + 15]
        calls[10 * number + 15] = layer, sequences, 7, took
    return calls


def test_a_few_other_inputs_between_do_not_hide_a_lacking_cache(tmp_path: Path) -> None:
    """Nine of ten calls are given one token more than the one before."""
    inference, listed = called(disturbed(4), tmp_path)
    assert inference.growing
    assert "no-kv-cache" in [one.kind for one in listed]


@pytest.mark.parametrize(
    "calls",
    [
        without_cache(4),  # 1.02 ms at first, 1.38 at last
        without_cache(100, more=2),
        without_cache(1000, steps=9),
        disturbed(5),
        [(DECODER, 1, 120, 1000 + 100.0 * step) for step in range(100)],
    ],
    ids=["tokens cost little", "two more", "few calls", "five other inputs between", "the same tokens"],
)
def test_near_misses_of_a_lacking_cache(tmp_path: Path, calls: list[Call]) -> None:
    assert "no-kv-cache" not in [one.kind for one in called(calls, tmp_path)[1]]


@pytest.mark.parametrize(
    ("usual", "slow", "p99"),
    [(98, 2, 5000), (99, 1, 1000), (97, 2, 0), (980, 20, 5000), (995, 5, 1000)],
    ids=["two of 100", "one of 100", "99 steps", "20 of 1000", "five of 1000"],
)
def test_of_a_hundred_steps_one_takes_longer_than_the_99th_percentile(tmp_path: Path, usual: int, slow: int, p99: int) -> None:
    """Slow steps are spread over the request; a step lasts until the next one begins."""
    apart = (usual + slow) // slow
    took = [4900 if step % apart == apart - 1 and step // apart < slow else 900 for step in range(usual + slow)]
    assert took.count(4900) == slow
    calls: list[Call] = [(DECODER, 2, 40, 3000), *((DECODER, 2, 2, one) for one in took)]
    inference, _ = called(calls, tmp_path, after=100)
    assert inference.decode is not None
    assert (inference.decode.steps, inference.decode.median_ns, inference.decode.sequences) == (usual + slow, 1000 * US, 2)
    assert inference.decode.p99_ns == pytest.approx(p99 * US, abs=100 * US)
    assert ("p99 " in inference.text) == (p99 > 0)


def test_an_encoder_reads_for_the_decoder_of_its_model(tmp_path: Path) -> None:
    """As T5 does: two texts of 30 tokens for each request, whose decoder is given one token of each from the first call on."""
    request: list[Call] = [(ENCODER, 2, 60, 2000), *[(DECODER, 2, 2, 400)] * 20]
    inference, _ = called(request * 3, tmp_path, after=100)
    assert inference.prefill is not None
    assert inference.decode is not None
    assert (inference.prefill.steps, inference.decode.steps, inference.requests, inference.other) == (3, 60, 3, None)
    assert inference.decode.tokens_per_s == pytest.approx(2 / 500e-6)
    assert inference.prefill.tokens_per_s == pytest.approx(60 / 2100e-6)


def test_a_model_that_makes_no_tokens_has_only_calls(tmp_path: Path) -> None:
    """As ViT does: images are no tokens."""
    inference, listed = called([(VIT, 0, 0, 2000)] * 12, tmp_path)
    assert (inference.prefill, inference.decode, inference.requests, inference.growing) == (None, None, 0, False)
    assert inference.other is not None
    assert (inference.other.steps, inference.other.sequences, inference.other.tokens_per_s) == (12, 0, 0)
    assert inference.text == "12 calls of the model, median 2 ms (500 a second)"
    assert "no-kv-cache" not in [one.kind for one in listed]


def test_an_encoder_alone_has_only_calls(tmp_path: Path) -> None:
    """As BERT does: it is given tokens, and makes none."""
    inference, _ = called([(DECODER, 8, 8 * 128, 2000)] * 12, tmp_path)
    assert (inference.prefill, inference.decode, inference.growing) == (None, None, False)
    assert inference.text == "12 calls of the model, median 2 ms (500 a second)"
