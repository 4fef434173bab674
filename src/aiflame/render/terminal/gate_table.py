"""The result of a gate on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.gate.comparison import Outcome
from aiflame.analyze.gate.gate import Gate
from aiflame.analyze.gate.sentence import Sentence, plain
from aiflame.analyze.gate.verdict_sentence import noise, percent
from aiflame.render.terminal.columns import table_of
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM

_STYLES = {Outcome.SLOWER: "red", Outcome.FASTER: "green", Outcome.NOISE: "", Outcome.SAME: "dim"}


def print_gate(answer: Gate, console: Console | None = None) -> None:
    """A table of all measures, then sentences about those that changed, and the evidence."""
    console = console or Terminal()
    columns = {
        "Before": [amount(round(one.base), "ns") for one in answer.verdicts],
        "Now": [amount(round(one.new), "ns") for one in answer.verdicts],
        "Change": [percent(one.change) for one in answer.verdicts],
        "Noise": [noise(one) for one in answer.verdicts],
        "Threshold": [f"{100 * one.threshold:g}%" for one in answer.verdicts],
        "Measure": [f"{one.metric.name} {one.item}" if one.item else one.metric.label for one in answer.verdicts],
    }
    styles = [_STYLES[one.outcome] for one in answer.verdicts]
    styled = {heading: [Text(*cell) for cell in zip(cells, styles, strict=True)] for heading, cells in columns.items()}
    names = {"Measure": styled.pop("Measure")}
    numbers = styled if console.width >= MEDIUM else {heading: styled[heading] for heading in ("Change", "Noise")}
    console.print(table_of(numbers, names, console.width))
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        chosen = [text for one, text in zip(answer.verdicts, answer.sentences, strict=True) if one.outcome is outcome]
        _print_list(console, outcome.value.capitalize(), chosen, _STYLES[outcome])
    _print_list(console, "Machines differ" if answer.machines_differ else "Machines", answer.machines, "")
    _print_list(console, "Code that changed", answer.code, "")
    _print_list(console, "Limits of this comparison", answer.notes, "")
    count = answer.regressions
    console.print()
    console.print(Text(f"{count} regression{'s' * (count > 1)}" if count else "No regression", "bold red" if count else "bold green"))


def _print_list(console: Console, title: str, sentences: Iterable[Sentence], style: str) -> None:
    lines = [plain(sentence) for sentence in sentences]
    if lines:
        console.print()
        console.print(Text(title, f"bold {style}".strip()))
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
