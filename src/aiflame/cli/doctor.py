"""`aiflame doctor`: checks this machine, and names a command that repairs each problem."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from rich.table import Table
from rich.text import Text

import aiflame
from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say, say_json
from aiflame.errors import AiflameError
from aiflame.json_text import json_text
from aiflame.recorder.checkup import checkup
from aiflame.recorder.finding import Finding, State
from aiflame.render.terminal.console import Terminal

DESCRIPTION = "What can aiflame record on this machine? Checks each part, and names the one command that mends a problem."
EXAMPLES = (
    "aiflame doctor",
    "aiflame doctor --hardware-report hardware.json",
    "aiflame doctor --hardware-report hardware.json run.aiflame",
)
_SECONDS = 3.0
_MARKS = {State.WORKS: ("✓", "green"), State.LIMITED: ("!", "yellow"), State.ABSENT: ("–", "dim"), State.BROKEN: ("✗", "red")}


def add_arguments(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument(
        "--hardware-report",
        type=Path,
        metavar="FILE",
        help="also measure the demo on each GPU here; the file has counts and versions, no host names, paths or source",
    )
    parser.add_argument(
        "profiles", nargs="*", type=Path, metavar="[PROFILE ...]", help="recordings on this machine, whose counts are in that file, too"
    )


def run(options: Namespace) -> int:
    """Returns 1 if something that recording needs is broken."""
    if options.profiles and not options.hardware_report:
        raise AiflameError("a PROFILE is for --hardware-report FILE")
    profiles = [aiflame.open(path) for path in options.profiles]
    with _report_file(options.hardware_report) as file:
        findings = checkup()
        if options.json:
            say_json(json_text([asdict(finding) for finding in findings], indent=1))
        else:
            _print(findings)
        if file is not None:
            from aiflame.cli.support.hardware_report import hardware_report

            text = json_text(hardware_report(findings, profiles, _SECONDS, _tell), indent=1)
            file.truncate(0)
            file.write(text + "\n")
    if file is not None:
        _tell(f"Written: {options.hardware_report}. Please look through it, then attach it to an issue.")
    return int(any(finding.state is State.BROKEN for finding in findings))


@contextlib.contextmanager
def _report_file(path: Path | None) -> Iterator[TextIO | None]:
    """Opened before anything is measured, which takes a while; an earlier report stays until the new one is there."""
    if path is None:
        yield None
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise AiflameError(f"cannot write {path}: {error.strerror}") from None


def _tell(text: str) -> None:
    say(text, err=True)


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(width=1)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mend = Text.assemble(("\nmend: ", "dim"), finding.mend) if finding.mend else Text()
        table.add_row(Text(*_MARKS[finding.state]), finding.subject, Text.assemble(finding.text, mend))
    Terminal().print(table)
