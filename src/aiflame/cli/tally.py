"""`aiflame tally`: calls of runtimes, kernels and bytes, added up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.analyze.tally import tally as ask
from aiflame.analyze.tally import to_json
from aiflame.cli.say import say_json
from aiflame.cli.view import Ranks, opened
from aiflame.json_text import json_text
from aiflame.render.terminal.tally_table import print_tally

ROWS = 20


def tally(
    profile: Annotated[Path | None, typer.Argument(metavar="PROFILE", help="The profile (default: the newest one here).")] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows of each table.")] = ROWS,
    extended: Annotated[bool, typer.Option("--extended", help="A row for each thread or device, too.")] = False,
    ranks: Ranks = "",
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Add up the calls of each runtime, what ran on devices, and what was moved."""
    sections = ask(opened(profile, ranks).store, extended=extended)
    if json:
        say_json(json_text(to_json(sections)))
    else:
        print_tally(sections, rows)
