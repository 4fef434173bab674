"""A report of `aiflame stats` as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.stats.report import Report
from aiflame.render.terminal.columns import GAP, needed_width, table_of
from aiflame.render.terminal.console import Terminal

_OWNERS = ("rank", "process", "device")
_LEAST = (
    "stddev",
    "p25",
    "p75",
    "correlation",
    "shared",
    "registers",
    "med",
    "min",
    "cumulative",
    "max",
    "avg",
    "longest",
    "memory",
    "launches",
    "flops",
    "device",
)
"""Beginnings and parts of names of columns, from those that a narrow terminal can best do without."""
_NUMBERED = ("rank", "tid", "stream", "correlation")
"""Numbers that are names."""
_FEWEST = 2
"""Columns of numbers that stay on any terminal."""
_NAMES = 32
"""The width that texts have before columns of numbers are left out for them."""
_UNITS = {"ns": "", "bytes": "", "percent": " %", "gb_s": " GB/s", "tb_s": " TB/s", "tflop_s": " TFLOP/s"}
"""The ends of columns' names, each with its text in a heading: "" where values have their units beside them."""


def print_report(report: Report, rows: pl.DataFrame, most: int, console: Console | None = None) -> None:
    """Prints the report's first rows. Columns of owners that are the same in all rows stand in the title;
    those in which nothing is known are left out."""
    console = console or Terminal()
    console.print(Text.assemble((report.name, "bold"), (f"  {report.shows}", "dim")))
    if rows.is_empty():
        console.print(Text(f"Nothing to show: {report.empty}.", "dim"))
        return
    shown, owner = _without_owner(rows.drop(report.only_in_files))
    if owner:
        console.print(Text(owner, "dim"))
    shown, left_out = _fitting(shown.head(most), console.width)
    console.print(_table(shown, console.width))
    if len(rows) > most:
        console.print(Text(f"{len(rows) - most:,} more (-n shows them)", "dim"))
    if left_out:
        console.print(Text(f"Not shown for lack of room: {', '.join(map(_heading, left_out))} (--csv has all columns)", "dim"))


def print_reports(reports: Iterable[Report], console: Console | None = None) -> None:
    """Prints a line for each report."""
    console = console or Terminal()
    listed = list(reports)
    width = max(len(report.name) for report in listed) + GAP
    tool = ""
    for report in listed:
        own = report.name.partition(".")[0]
        if tool and own != tool:
            console.print()
        tool = own
        console.print(Text.assemble((f"{report.name:{width}}", "bold"), (report.shows, "")), no_wrap=True, overflow="ellipsis")
    console.print(Text("\naiflame stats REPORT [PROFILE] prints one; docs/stats.md says what each is called elsewhere", "dim"))


def _without_owner(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows without columns that have one value only, and these values as a text."""
    alike = [name for name in _OWNERS if name in rows.columns and rows[name].n_unique() == 1]
    unknown = [name for name in rows.columns if rows[name].null_count() == len(rows)]
    texts = [f"{name} {rows[name][0]}" if name == "rank" else str(rows[name][0]) for name in alike if rows[name][0] not in (None, "")]
    return rows.drop({*alike, *unknown}), ", ".join(texts)


def _fitting(rows: pl.DataFrame, width: int) -> tuple[pl.DataFrame, list[str]]:
    """The rows without the columns of numbers for which there is no room beside the texts."""
    left_out: list[str] = []
    for part in _LEAST:
        if _needed(rows) <= width:
            break
        gone = [name for name in rows.columns if part in name and rows[name].dtype.is_numeric()]
        rows, left_out = rows.drop(gone), left_out + gone
    while _needed(rows) > width and len(numbers := [name for name in rows.columns if rows[name].dtype.is_numeric()]) > _FEWEST:
        rows, left_out = rows.drop(numbers[-1]), [*left_out, numbers[-1]]
    return rows, left_out


def _needed(rows: pl.DataFrame) -> int:
    return sum(min(_width(rows, name), _NAMES if not rows[name].dtype.is_numeric() else 1 << 16) + GAP for name in rows.columns) - GAP


def _width(rows: pl.DataFrame, name: str) -> int:
    return needed_width(_heading(name), _cells(rows, name))


def _table(rows: pl.DataFrame, width: int) -> Table:
    """The columns in the order of the report. The last text, most often a name, has more room than the others."""
    headings = _headings(rows)
    is_number = {name: rows[name].dtype.is_numeric() for name in rows.columns}
    numbers = {heading: _cells(rows, name) for name, heading in headings.items() if is_number[name]}
    texts = {headings[name]: _cells(rows, name) for name in reversed(rows.columns) if not is_number[name]}
    return table_of(numbers, texts, width, order=list(headings.values()))


def _headings(rows: pl.DataFrame) -> dict[str, str]:
    """For each column its own: of a device and its time, the latter is `Device time`."""
    plain = [_heading(name) for name in rows.columns]
    return {
        name: f"{one} time" if name.endswith("_ns") and plain.count(one) > 1 else one for name, one in zip(rows.columns, plain, strict=True)
    }


def _heading(name: str) -> str:
    for unit, sign in _UNITS.items():
        if name.endswith(f"_{unit}"):
            return f"{_words(name.removesuffix(f'_{unit}'))}{sign}"
    return "%" if name == "percent" else _words(name)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("cpu", "CPU").capitalize().replace("cpu", "CPU").replace("Cpu", "CPU")


def _cells(rows: pl.DataFrame, name: str) -> list[str]:
    return [_cell(name, value) for value in rows[name].to_list()]


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float)
    if name.endswith("_ns"):
        return amount(round(value), "ns")
    if name in _NUMBERED:
        return str(value)
    if name == "bytes" or name.endswith("_bytes"):
        return amount(round(value), "bytes")
    if name.endswith("percent"):
        return f"{value:.1f}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}"
