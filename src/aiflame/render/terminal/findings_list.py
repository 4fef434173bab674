"""Findings for the terminal: a sentence each, then its line, its remedy, and the command that shows its evidence."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.listing import Listing
from aiflame.attribute.tree import GPU_STALLS, WALL_TIME
from aiflame.render.terminal.console import Terminal
from aiflame.resolve.device.stall_reasons import meaning

WIDEST = 110
"""In columns: longer sentences are hard to read."""


def print_findings(listing: Listing, profile: str, console: Console | None = None) -> None:
    """`profile`: its path, as a command names it."""
    console = console or Terminal()
    width = min(console.width, WIDEST)
    console.print(_heading(listing), width=width)
    scope = listing.summary.scope
    for text in filter(None, (scope.with_switch(), scope.inference_text)):
        console.print(Text(text, "dim"), width=width)
    for number, one in enumerate(listing.findings, 1):
        finding = one.finding
        command = look(finding, profile, whole_run=listing.whole_run)
        facts = {"where": finding.view.place, "stall": _stall(finding), "fix": one.fix, "look": command, "id": one.id}
        console.print()
        console.print(_block(f"{number}", finding.sentence, {name: text for name, text in facts.items() if text}), width=width)
    if not listing.findings and not listing.missing:
        console.print()
        console.print(Text("No part of the time stands out: aiflame top lists the largest parts."), width=width)
    for text in (*listing.missing, *listing.notes):
        console.print()
        console.print(Text(text, style="yellow"), width=width)


def look(finding: Finding, profile: str, *, whole_run: bool = False) -> str:
    """The command that shows a finding's evidence; it never runs a program that a profile names. `whole_run`: all findings cover the whole
    run."""
    view, of = finding.view, shlex.quote(profile)
    every = " --whole-run" if whole_run or finding.of_whole_run else ""
    if view.view == "kernels" and view.kernel:
        return f"aiflame annotate {of} {shlex.quote(view.kernel)}{every}"
    if view.view == "flame":
        by = f" --by {view.by}" if view.by not in ("", "code") else ""
        focus = f" --focus {shlex.quote(view.search)}" if view.search else ""
        return f"aiflame flame {of} --metric {view.metric or GPU_STALLS.name}{by}{focus}{every}"
    if view.view == "ranks":
        return f"aiflame ranks {of}"
    if view.metric == WALL_TIME.name and view.view == "timeline":
        search = f" --focus {shlex.quote(view.search)}" if view.search else ""
        return f"aiflame record --wall -- COMMAND && aiflame flame --metric {WALL_TIME.name}{search}"
    if view.view == "timeline" and view.by == "step":
        return f"aiflame top {of} --by step{every}"
    if view.table in ("layers", "steps"):
        return f"aiflame top {of} --by {view.table.removesuffix('s')}{every}"
    return f"aiflame open {of}{every}"


def _heading(listing: Listing) -> Text:
    summary, total = listing.summary, listing.total
    facts = [amount(summary.duration_ns, "ns")] if summary.duration_ns else []
    if total is not None:
        facts.append(f"{total.label} {amount(total.total, total.unit)}")
    if summary.exit_status:
        facts.append(f"ended with status {summary.exit_status}")
    command = summary.command.removeprefix(f"{listing.profile}: ")  # an import names its file there, too
    return Text.assemble((listing.profile, "bold"), f": {command}" if command else "", (f" ({', '.join(facts)})" if facts else "", "dim"))


def _block(number: str, sentence: str, facts: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(number, Text(sentence, "bold"))
    inner = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    inner.add_column(style="dim", width=5, no_wrap=True)
    inner.add_column(overflow="fold")
    for name, text in facts.items():
        inner.add_row(name, Text(text, "dim" if name == "id" else ""))
    table.add_row("", inner)
    return table


def _stall(finding: Finding) -> str:
    reason = finding.view.stall
    return f"{reason}: {meaning(reason)}" if meaning(reason) else reason
