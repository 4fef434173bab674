"""Slower and faster items, as tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.diff.comparison import Change, Comparison, Difference
from aiflame.attribute.groupings import GROUPINGS
from aiflame.render.terminal.columns import table_of
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM

SLOWER, FASTER = "red", "green"


def print_comparison(comparison: Comparison, rows: int, *, everything: bool = False, console: Console | None = None) -> None:
    """Prints the step, then a table for each grouping; without `everything`, differences within noise are only counted."""
    console = console or Terminal()
    if comparison.step is not None:
        console.print(_step_line(comparison.step))
        console.print()
    for number, difference in enumerate(comparison.differences):
        if number:
            console.print()
        _print(difference, rows, everything, console)


def _step_line(step: Change) -> Text:
    change = step.new - step.base
    line = Text.assemble("Step: ", (amount(round(step.base), "ns"), "bold"), " before, ", (amount(round(step.new), "ns"), "bold"), " now (")
    line.append(_percent(step.base, step.new), SLOWER if change > 0 else FASTER if change < 0 else "")
    line.append("; the noise is not known)" if step.beyond is None else ")" if step.beyond else ", within the noise)")
    return line


def _print(difference: Difference, rows: int, everything: bool, console: Console) -> None:
    listed = difference.rows if everything else difference.differing()
    hidden = len(difference.rows) - len(listed)
    heading_of_names = GROUPINGS[difference.by].heading
    if listed.is_empty():
        none = "no difference beyond the noise" if hidden and difference.rows["beyond"].is_not_null().any() else "no difference"
        console.print(Text(f"{heading_of_names}: {none} ({difference.note})", "dim"))
        return
    shown = listed.head(rows).rows(named=True)
    styles = [_style(row) for row in shown]
    numbers: dict[str, list[str | Text]] = {}
    if console.width >= MEDIUM:
        numbers = {
            heading: [_amount(row[side], difference.unit) for row in shown] for heading, side in (("Before", "base"), ("Now", "new"))
        }
    numbers["Difference"] = [Text(_signed(row["difference"], difference.unit), style) for row, style in zip(shown, styles, strict=True)]
    numbers[""] = [Text(_kind(row), style) for row, style in zip(shown, styles, strict=True)]
    names = [Text(row["name"], "dim" if row["beyond"] is False else "") for row in shown]
    # The end of a path names the layer.
    console.print(table_of(numbers, {heading_of_names: names}, console.width, keep_ends=difference.by == "layer"))
    more = [f"{len(listed) - rows:,} more"] if len(listed) > rows else []
    noise = int((~difference.rows["beyond"]).sum()) if hidden else 0
    more += [f"{noise:,} within the noise (--all shows them)"] if noise else []
    more += [f"{hidden - noise:,} the same"] if hidden > noise else []
    console.print(Text("; ".join([f"{difference.label}, {difference.note}", *more]), "dim"))


def _style(row: dict[str, Any]) -> str:
    change = row["difference"]
    return "dim" if row["beyond"] is False or not change else SLOWER if change > 0 else FASTER


def _signed(change: float, unit: str) -> str:
    return ("+" if change > 0 else "−" if change < 0 else "") + _amount(abs(change), unit)


def _amount(value: float, unit: str) -> str:
    """An amount; in a step it may be less than one sample."""
    return f"{value:.3g} {unit}" if unit == "samples" and value < 100 else amount(round(value), unit)


def _kind(row: dict[str, object]) -> str:
    only = {"base": "gone", "new": "new"}.get(str(row["only"]))
    return only or _percent(float(str(row["base"])), float(str(row["new"])))


def _percent(base: float, new: float) -> str:
    if not base:
        return ""
    change = 100 * (new - base) / base
    return f"×{new / base:.1f}" if change >= 1000 else f"{change:+.1f}%".replace("-", "−")
