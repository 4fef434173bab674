"""`aiflame doctor`: what works on this machine, what does not, and the one command that mends it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from aiflame.cli.say import say_json
from aiflame.json_text import json_text
from aiflame.recorder.checkup import checkup
from aiflame.recorder.finding import Finding, State
from aiflame.render.terminal.console import Terminal

_MARKS = {State.WORKS: ("✓", "green"), State.LIMITED: ("!", "yellow"), State.ABSENT: ("–", "dim"), State.BROKEN: ("✗", "red")}


def doctor(json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False) -> None:
    """Say what works here, what does not, and how to mend it."""
    findings = checkup()
    if json:
        say_json(json_text([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    if any(finding.state is State.BROKEN for finding in findings):
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(width=1)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mend = Text.assemble(("\nmend: ", "dim"), finding.mend) if finding.mend else Text()
        table.add_row(Text(*_MARKS[finding.state]), finding.subject, Text.assemble(finding.text, mend))
    Terminal().print(table)
