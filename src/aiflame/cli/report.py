"""`aiflame report`: the profile as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.analyze.amounts import amount
from aiflame.cli.say import say
from aiflame.cli.view import BaseRanks, Ranks, SourcePath, of_ranks, opened, source_folder
from aiflame.memory import keep_freed_memory
from aiflame.render.report.document import write

LARGE = 64 << 20
"""Bytes. Browsers take seconds to open files beyond it."""


def report(
    profile: Annotated[Path | None, typer.Argument(metavar="PROFILE", help="The profile (default: the newest profile here).")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file.")] = Path("report.html"),
    baseline: Annotated[Path | None, typer.Option(metavar="PROFILE", help="Compare with this one: red is more, blue is less.")] = None,
    ranks: Ranks = "",
    base_ranks: BaseRanks = "",
    source_path: SourcePath = None,
    title: Annotated[str, typer.Option(help="The title (default: the profile's name).")] = "",
) -> None:
    """Write the whole report as one HTML file that opens without a network."""
    keep_freed_memory()
    shown = opened(profile, ranks)
    before = opened(baseline, base_ranks).store if baseline is not None else None
    size = write(shown.store, output, before, title or of_ranks(shown, ranks), source_folder(source_path))
    say(output)
    if size > LARGE:
        say(f"{output} has {amount(size, 'bytes')}: aiflame open shows the same without one large file", err=True)
