"""A verdict as a sentence: how much slower or faster, compared with threshold and noise, where, and the code that changed."""

from __future__ import annotations

from collections.abc import Sequence

from aiflame.analyze.amounts import amount
from aiflame.analyze.gate.code import CodeChanges
from aiflame.analyze.gate.comparison import Noise, Outcome, Verdict
from aiflame.analyze.gate.sentence import Name, Sentence, listed

_MOST_PARTS = 3
_FROM = {Noise.RUNS: " between runs", Noise.STEPS: " between steps"}


def sentence(one: Verdict, changed: CodeChanges, parts: Sequence[Verdict] = ()) -> Sentence:
    """`parts`: parts that got slower together with it."""
    words = [
        *subject(one),
        f" {one.metric.verb} {amount(round(one.new), 'ns')}",
        _period(one),
        f", {amount(round(one.base), 'ns')} before: ",
    ]
    words += [change(one), _reason(one), "."]
    if one.outcome is Outcome.SLOWER:
        words += [*_where(one), *_of_code(one, changed)]
        if parts:
            words.append(" Slower parts: ")
            for number, part in enumerate(parts[:_MOST_PARTS]):
                words += [", " if number else "", *subject(part, start=False), f" ({_signed(part.difference)})"]
            words.append(".")
    return tuple(words)


def subject(one: Verdict, *, start: bool = True) -> Sentence:
    """`A step`, `Kernel sgemm`."""
    text = one.metric.subject if start else one.metric.subject[0].lower() + one.metric.subject[1:]
    return (f"{text} ", Name(one.item)) if one.metric.parts else (text,)


def change(one: Verdict) -> str:
    """`+10.0% (+10 ms)`"""
    return f"{percent(one.change)} ({_signed(one.difference)})"


def percent(share: float) -> str:
    return f"×{1 + share:.1f}" if share >= 10 else f"{100 * share:+.1f}%".replace("-", "−")


def noise(one: Verdict) -> str:
    if one.noise is None:
        return "unknown" if one.noise_from is Noise.UNKNOWN else "±0.0%"
    return f"{'≥' if one.noise_from is Noise.UNKNOWN else '±'}{100 * one.noise:.1f}%"


def _signed(difference: float) -> str:
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return f"{sign}{amount(abs(round(difference)), 'ns')}"


def _period(one: Verdict) -> str:
    return " in a step" if one.per_step and one.metric.name not in ("step", "elapsed") else ""


def _reason(one: Verdict) -> str:
    limit = f"the threshold of {100 * one.threshold:g}%"
    if one.outcome is Outcome.SAME:
        small = abs(one.change) > one.threshold
        return ", less than a hundredth of the whole time" if small else f", within {limit}"
    if one.noise_from is Noise.UNKNOWN:
        if one.outcome is not Outcome.NOISE:
            return f", beyond {limit}; the noise between runs is unknown"
        few = one.noise is not None and abs(one.change) <= one.noise
        return f", beyond {limit}, but {'too few samples fell into it' if few else 'too little where the noise between runs is unknown'}"
    chance = f"the noise of {noise(one)}{' by its number of samples' if one.few_samples else _FROM[one.noise_from]}"
    return f", beyond {limit}, but within {chance}" if one.outcome is Outcome.NOISE else f", beyond {limit} and {chance}"


def _where(one: Verdict) -> Sentence:
    words: list[str] = []
    if one.place.line:
        words += [" at ", Name(one.place.line)]
    if one.place.layer:
        words += [" in layer ", Name(one.place.layer)]
    start = " It is launched mostly" if one.metric.name == "kernel" else " Most of its time is spent"
    return (start, *words, ".") if words else ()


def _of_code(one: Verdict, changed: CodeChanges) -> Sentence:
    words: list[str] = []
    if one.metric.name == "kernel" and (aspects := changed.kernels.get(one.item)):
        words += [" Its code changed: ", *listed(aspects), "."]
    file = one.place.line.rpartition(":")[0]
    if functions := changed.files.get(file):
        words += [" The source of ", Name(file), " changed: ", *listed(functions[:_MOST_PARTS]), "."]
    return tuple(words)
