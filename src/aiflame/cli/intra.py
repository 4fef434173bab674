"""`aiflame intra`: what happens inside kernels that were recorded with --intra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.analyze.intra.kernels import intra as ask
from aiflame.analyze.intra.kernels import to_json
from aiflame.cli.say import say_json
from aiflame.cli.view import Ranks, opened
from aiflame.json_text import json_text
from aiflame.render.terminal.intra_table import print_intra

ROWS = 30


def intra(
    profile: Annotated[Path | None, typer.Argument(metavar="PROFILE", help="The profile (default: the newest one here).")] = None,
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="Only kernels with this in their name.")] = "",
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many scopes of each kernel.")] = ROWS,
    ranks: Ranks = "",
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Show what happens inside kernels: scopes, overlap of copies and math, waits, roles, tail."""
    kernels = ask(opened(profile, ranks).store, kernel)
    if json:
        say_json(json_text(to_json(kernels)))
    else:
        print_intra(kernels, rows)
