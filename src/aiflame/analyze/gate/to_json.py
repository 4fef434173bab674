"""The result of a gate as JSON."""

from __future__ import annotations

from aiflame.analyze.gate.gate import Gate
from aiflame.analyze.gate.sentence import plain
from aiflame.json_text import json_text, schema


def to_json(answer: Gate) -> str:
    """{"schema", "regressions", "base", "new", "measures": [{"metric", "item", "base_ns", …}], "notes", "machines", "code"}"""
    measures = [
        {
            "metric": one.metric.name,
            "item": one.item,
            "base_ns": one.base,
            "new_ns": one.new,
            "per_step": one.per_step,
            "change": one.change,
            "threshold": one.threshold,
            "noise": one.noise,
            "noise_from": one.noise_from.value,
            "outcome": one.outcome.value,
            "layer": one.place.layer,
            "line": one.place.line,
            "sentence": plain(sentence),
        }
        for one, sentence in zip(answer.verdicts, answer.sentences, strict=True)
    ]
    lists = {"notes": answer.notes, "machines": answer.machines, "code": answer.code}
    return json_text(
        {
            "schema": schema("gate"),
            "regressions": answer.regressions,
            "base": answer.base,
            "new": answer.new,
            "margin": answer.margin / 100,
            "measures": measures,
            **{name: [plain(line) for line in lines] for name, lines in lists.items()},
            "machines_differ": answer.machines_differ,
        },
        indent=1,
    )
