"""`aiflame ranks`: what the ranks of a parallel job did with their time, who they wait for, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from aiflame.analyze.ranks import fan_out
from aiflame.analyze.ranks.comparison import ranks as ask
from aiflame.analyze.ranks.comparison import to_json
from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.sources import sources
from aiflame.cli.say import say_json
from aiflame.errors import AiflameError
from aiflame.json_text import json_text
from aiflame.profile.opening import newest
from aiflame.profile.rank_numbers import parse_ranks
from aiflame.recorder.options import parse_size
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.ranks_table import print_ranks

Profiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PROFILE]...", help="Profiles of one job: one with all ranks, or one for each (default: the newest profile here)."
    ),
]


def ranks(
    profiles: Profiles = None,
    only: Annotated[str, typer.Option("--ranks", metavar="0,7", help="These ranks alone: numbers and runs of numbers, 0-3.")] = "",
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows of each table.")] = 20,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Memory that all processes together may take.")] = "2G",
    dask: Annotated[str, typer.Option("--dask", metavar="ADDRESS", help="Analyse on this Dask cluster: tcp://HOST:8786.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Show what ranks of a parallel job did, who came last to collectives, and why."""
    bound = _bound(memory)
    found, notes = sources(profiles or [newest(Path())])
    if only:
        wanted = parse_ranks(only)
        found = [source for source in found if source.rank in wanted]
    if not found:
        raise AiflameError("no rank is there to analyse: " + ("; ".join(notes) or f"--ranks {only} names none of this job"))
    partial = _with_progress(lambda told: fan_out.on_dask(found, dask, told) if dask else fan_out.here(found, bound, told))
    if not partial.facts:
        raise AiflameError("no rank could be analysed: " + "; ".join([*notes, *partial.notes]))
    answer = ask(partial)
    answer.notes[:0] = notes
    if json:
        say_json(json_text(to_json(answer, rows), indent=1))
        return
    print_ranks(answer, rows)


def _bound(memory: str) -> int:
    """Bytes, at least one."""
    try:
        size = parse_size(memory)
    except AiflameError:
        size = 0
    if not size:
        raise AiflameError(f"--memory {memory}: name a size like 2G or 500M")
    return size


def _with_progress(work: Callable[[Callable[[float], None]], Partial]) -> Partial:
    """On a terminal alone."""
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("Ranks", total=1.0)
        return work(lambda share: shown.update(task, completed=share))
