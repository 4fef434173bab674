"""The result of a gate as JUnit XML: a test case for each measure; measures that got slower are failures."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from aiflame.analyze.gate.comparison import Outcome, Verdict
from aiflame.analyze.gate.gate import Gate
from aiflame.analyze.gate.sentence import Sentence, plain
from aiflame.analyze.gate.verdict_sentence import change
from aiflame.render.clean_text import cleaned_text


def junit(answer: Gate) -> str:
    """A document with one suite. Failures also name machines and code, since many systems show nothing else."""
    counts = f'tests="{len(answer.verdicts)}" failures="{answer.regressions}" errors="0" skipped="0"'
    evidence = [("machine", line) for line in answer.machines] + [("code", line) for line in answer.code]
    properties = [
        ("base", (", ".join(answer.base),)),
        ("new", (", ".join(answer.new),)),
        *evidence,
        *(("note", line) for line in answer.notes),
    ]
    details = "\n".join(cleaned_text(plain(line)) for _, line in evidence)
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="aiflame gate" {counts}>',
            f'<testsuite name="aiflame gate" {counts}>',
            "<properties>",
            *(f"<property name={_attribute(name)} value={_attribute(plain(text))}/>" for name, text in properties),
            "</properties>",
            *(_case(one, text, details) for one, text in zip(answer.verdicts, answer.sentences, strict=True)),
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _case(one: Verdict, sentence: Sentence, details: str) -> str:
    begin = f"<testcase classname={_attribute(f'aiflame.{one.metric.name}')} name={_attribute(one.item or one.metric.label)}"
    begin += f' time="{one.new / 1e9:.9f}">'
    text = cleaned_text(plain(sentence))
    if one.outcome is not Outcome.SLOWER:
        return f"{begin}<system-out>{escape(text)}</system-out></testcase>"
    inside = escape("\n".join(part for part in (text, details) if part))
    return f'{begin}<failure type="regression" message={_attribute(change(one))}>{inside}</failure></testcase>'


def _attribute(text: str) -> str:
    return quoteattr(cleaned_text(text))
