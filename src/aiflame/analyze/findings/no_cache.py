"""A finding about text generation without a cache of keys and values: each token then costs as much as all tokens before it."""

from __future__ import annotations

from collections.abc import Iterator

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.overview.inference_line import Inference

LEAST_SHARE = 0.1
LONGER = 1.5
"""How many times longer steps with many tokens must be than those with few: below this, tokens cost little, as in a small model."""


def no_cache(inference: Inference | None, metric: str, took_ns: int) -> Iterator[Finding]:
    """`took_ns`: all the time that findings cover."""
    of = inference.growth if inference is not None else None
    share = min(of.more_ns / max(took_ns, 1), 1.0) if of is not None else 0.0
    if of is None or share < LEAST_SHARE or of.many_ns < LONGER * of.few_ns:
        return
    first, last = (
        f"{amount(ns, 'ns')} with {tokens:,} tokens" for ns, tokens in ((of.few_ns, of.few_tokens), (of.many_ns, of.many_tokens))
    )
    sentence = (
        f"The model makes tokens without a cache: each of {of.steps:,} calls is given all tokens again and one more, and takes {first},"
        f" {last}; the tokens given again cost {share:.0%} of the time"
    )
    yield Finding(sentence, share, Evidence("timeline", metric, "step", table="steps"), "no-kv-cache", share)
