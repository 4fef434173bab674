"""`aiflame open`: the report in a browser, served on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.cli.browser import show
from aiflame.cli.say import say
from aiflame.cli.view import BaseRanks, Ranks, SourcePath, of_ranks, opened, source_folder
from aiflame.render.report.document import Report
from aiflame.render.report.server import Server


def open_report(
    profile: Annotated[Path | None, typer.Argument(metavar="PROFILE", help="The profile (default: the newest profile here).")] = None,
    baseline: Annotated[Path | None, typer.Option(metavar="PROFILE", help="Compare with this one: red is more, blue is less.")] = None,
    ranks: Ranks = "",
    base_ranks: BaseRanks = "",
    source_path: SourcePath = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1 (default: any that is free).")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address alone.")] = False,
) -> None:
    """Show the report in a browser; Ctrl-C ends it."""
    shown = opened(profile, ranks)
    before = opened(baseline, base_ranks).store if baseline is not None else None
    found = Report(shown.store, before, of_ranks(shown, ranks), sources=source_folder(source_path))
    with Server(found, port) as server:
        say(server.address)
        if not no_browser:
            for line in show(server.address):
                say(line, err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say(err=True)  # after the terminal's ^C
