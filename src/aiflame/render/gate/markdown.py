"""The result of a gate as GitHub-flavoured Markdown. Names from profiles are code, which no renderer takes for markup, links or
mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from aiflame.analyze.amounts import amount
from aiflame.analyze.gate.comparison import Outcome, Verdict
from aiflame.analyze.gate.gate import Gate
from aiflame.analyze.gate.sentence import Name, Sentence
from aiflame.analyze.gate.verdict_sentence import noise, percent
from aiflame.render.clean_text import cleaned_text

_ACTIVE = re.compile(r"[^\w /,-]|_", re.ASCII)
_SIGNS = {Outcome.SLOWER: "🔴 slower", Outcome.FASTER: "🟢 faster", Outcome.NOISE: "within noise", Outcome.SAME: "same"}


def markdown(answer: Gate) -> str:
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Gate) -> Iterator[str]:
    count = answer.regressions
    yield f"## {'🔴' if count else '🟢'} aiflame gate: {f'{count} regression' + 's' * (count > 1) if count else 'no regression'}"
    yield ""
    yield f"{_names(answer.new)} compared with {_names(answer.base)}."
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        chosen = [text for one, text in zip(answer.verdicts, answer.sentences, strict=True) if one.outcome is outcome]
        yield from _list(outcome.value.capitalize(), chosen)
    yield from _list("Machines differ" if answer.machines_differ else "Machines", answer.machines)
    yield from _list("Code that changed", answer.code)
    yield from _list("Limits of this comparison", answer.notes)
    yield from ("", f"<details><summary>All {len(answer.verdicts)} measures</summary>", "")
    yield "| measure | before | now | change | threshold | noise | |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    yield from map(_row, answer.verdicts)
    yield from ("", "</details>")


def _list(title: str, sentences: Iterable[Sentence]) -> Iterator[str]:
    if lines := [f"- {escaped(sentence)}" for sentence in sentences]:
        yield from ("", f"### {title}", "", *lines)


def _row(one: Verdict) -> str:
    label = one.metric.name if one.metric.parts else one.metric.label
    cells = [
        f"{label} {escaped((Name(one.item),))}" if one.item else label,
        amount(round(one.base), "ns"),
        amount(round(one.new), "ns"),
        percent(one.change),
        f"{100 * one.threshold:g}%",
        noise(one),
        _SIGNS[one.outcome],
    ]
    return f"| {' | '.join(cells)} |"


def _names(names: Iterable[str]) -> str:
    return ", ".join(escaped((Name(name),)) for name in names)


def escaped(sentence: Sentence) -> str:
    """Names as code, with punctuation written as character references: CommonMark gives these no meaning in its syntax, and GitHub finds no
    mentions within code."""
    return "".join(f"<code>{_references(piece)}</code>" if isinstance(piece, Name) else piece for piece in sentence)


def _references(name: str) -> str:
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};" if ord(match[0]) < 128 else match[0], cleaned_text(name))
