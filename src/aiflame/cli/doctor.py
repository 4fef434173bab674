"""`aiflame doctor`: checks this machine, and names a command that repairs each problem."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.json_text import json_text
from aiflame.recorder.checkup import checkup
from aiflame.recorder.finding import Finding, State
from aiflame.render.terminal.console import Terminal

DESCRIPTION = "What can aiflame record on this machine? Checks each part, and names the one command that mends a problem."
EXAMPLES = ("aiflame doctor",)
_MARKS = {State.WORKS: ("✓", "green"), State.LIMITED: ("!", "yellow"), State.ABSENT: ("–", "dim"), State.BROKEN: ("✗", "red")}


def add_arguments(parser: Parser) -> None:
    add_json(parser)


def run(options: Namespace) -> int:
    """Returns 1 if something that recording needs is broken."""
    findings = checkup()
    if options.json:
        say_json(json_text([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    return int(any(finding.state is State.BROKEN for finding in findings))


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(width=1)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mend = Text.assemble(("\nmend: ", "dim"), finding.mend) if finding.mend else Text()
        table.add_row(Text(*_MARKS[finding.state]), finding.subject, Text.assemble(finding.text, mend))
    Terminal().print(table)
