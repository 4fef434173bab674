"""A source file in the terminal; each line has its share of the time: its own, and with its callees."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich.console import Console
from rich.text import Text

from aiflame.analyze.amounts import amount, share
from aiflame.analyze.kernel.source_text import SourceText
from aiflame.analyze.source.lines import SourceLines
from aiflame.render.terminal.annotate_cells import Cell, harmless, heat, percent, row, wrapped
from aiflame.render.terminal.console import Terminal

AROUND = 3
"""The number of lines without time that are shown before and after one with time."""
_PERCENT, _BAR, _WIDE = 6, 16, 90
_NO_TEXT = "the text of this file is not in the profile: it was gone, has changed since, or lies elsewhere: --source-path DIR"


def print_source(source: SourceLines, path: str, text: SourceText, *, whole_file: bool = False, console: Console | None = None) -> None:
    """`whole_file`: includes the lines far from any that took time."""
    console = console or Terminal()
    for line in source_listing(source, path, text, console.width, whole_file=whole_file):
        console.print(line, no_wrap=True, overflow="crop", crop=True)


def source_listing(source: SourceLines, path: str, text: SourceText, width: int, *, whole_file: bool = False) -> Iterator[Text]:
    own, total = source.files.filter(pl.col("path") == path).select("self", "total").row(0)
    unit, whole = source.metric.unit, source.total
    yield Text(harmless(path), "bold")
    parts = f"{amount(own, unit)} ({share(own, whole)}) in its lines, {amount(total, unit)} ({share(total, whole)}) with callees"
    yield from wrapped(f"{source.metric.label}: {parts}", width, "dim")
    if not text.lines:
        yield from wrapped(_NO_TEXT, width, "yellow")
    yield Text()
    times = {line: (own, total) for line, own, total in source.of_file(path).select("line", "self", "total").rows()}
    bars = _BAR if width >= _WIDE else 0
    count = len(text.lines) - (text.lines[-1:] == ("",))  # a file ends with a line break
    numbers = len(str(max([*times, count])))
    room = width - 2 * _PERCENT - bars - numbers - (4 if bars else 3)

    def cells(first: str, second: str, picture: str, number: str, code: str, style: str = "", code_style: str = "") -> Text:
        drawn = [Cell(picture, bars, "green")] if bars else []
        heads = [Cell(first, _PERCENT, style, right=True), Cell(second, _PERCENT, style, right=True), *drawn]
        return row([*heads, Cell(number, numbers, "cyan", right=True), Cell(code, room, code_style)])

    yield cells("self", "total", "", "", "source", "bold", "bold")
    most = max([total for _, total in times.values()], default=1)
    last = 0
    for line in _shown(sorted(times), count, whole_file=whole_file):
        if line > last + 1:
            yield cells("", "", "", "⋮", "", code_style="dim")
        last = line
        own, total = times.get(line, (0, 0))
        code = harmless(text.line(line) or "")
        style = heat(total, source.total)
        yield cells(percent(own, source.total), percent(total, source.total), _bar(own, total, most, bars), str(line), code, style, style)


def _shown(times: list[int], count: int, *, whole_file: bool) -> list[int]:
    """The lines to show, in order."""
    if not count:
        return times
    if whole_file:
        return sorted({*range(1, count + 1), *times})
    return sorted({near for line in times for near in range(line - AROUND, line + AROUND + 1) if 0 < near <= count} | set(times))


def _bar(own: int, total: int, most: int, width: int) -> str:
    """The line's own time is dark, that of its callees light."""
    whole, dark = (round(width * value / max(most, 1)) for value in (total, own))
    return "█" * dark + "░" * max(0, whole - dark)
