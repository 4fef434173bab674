"""A tally as tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from aiflame.analyze.amounts import amount, share
from aiflame.analyze.tally import DEVICE, HOST, TRAFFIC, Section
from aiflame.render.terminal.columns import table_of
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM

TITLES = {HOST: "calls", DEVICE: "on devices", TRAFFIC: "moved"}
NONE = "Nothing to add up: no call was traced and nothing ran on a device. Ask for calls with `aiflame record --trace all`."


def print_tally(sections: list[Section], rows: int, console: Console | None = None) -> None:
    """Prints a table for each section, each with at most `rows` rows."""
    console = console or Terminal()
    if not sections:
        console.print(Text(NONE, "dim"))
    for number, section in enumerate(sections):
        if number:
            console.print()
        _print(section, rows, console)


def _print(section: Section, rows: int, console: Console) -> None:
    console.print(Text.assemble((f"{section.backend} {TITLES[section.kind]}", "bold"), (f"  {_of(section)}", "dim")))
    wide, unit = console.width >= MEDIUM, section.unit
    rows_shown = section.rows.head(rows)
    numbers = {
        "Bytes" if section.kind == TRAFFIC else "Time": [amount(value, unit) for value in rows_shown["total"]],
        "%": [share(value, section.total) for value in rows_shown["total"]],
        "Calls": [f"{count:,}" for count in rows_shown["calls"]],
    }
    if wide:
        least, most = ("Smallest", "Largest") if section.kind == TRAFFIC else ("Shortest", "Longest")
        numbers |= {
            heading: [amount(value, unit) for value in rows_shown[name]]
            for heading, name in (("Average", "mean"), (least, "min"), (most, "max"))
        }
    if section.rows["failed"].sum():
        numbers["Failed"] = [f"{count:,}" if count else "" for count in rows_shown["failed"]]
    texts = {"Name": rows_shown["name"].to_list()}
    if "owner" in rows_shown.columns:
        texts["Thread" if section.kind == HOST else "Device"] = [Text(owner, "dim") for owner in rows_shown["owner"]]
    console.print(table_of(numbers, texts, console.width))
    if len(section.rows) > rows:
        console.print(Text(f"{len(section.rows) - rows:,} more (-n shows them)", "dim"))


def _of(section: Section) -> str:
    parts = [amount(section.total, section.unit), _counted(section.processes, "process", "processes")]
    if section.kind != TRAFFIC:
        parts.append(_counted(section.threads, *(("device", "devices") if section.kind == DEVICE else ("thread", "threads"))))
    return f"{parts[0]} in all, {', '.join(parts[1:])}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
