"""`aiflame top`: the heaviest functions, lines, modules … as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from aiflame.analyze.top import to_json
from aiflame.analyze.top import top as ask
from aiflame.attribute.tree import GPU_STALLS, OF_GPU
from aiflame.cli.view import Focus, Idle, MetricName, ProfilePath, Raw, view
from aiflame.render.table import print_top

_DETAIL = {"line": "line", "stall": "instruction"}


def top(
    profile: ProfilePath = None,
    by: Annotated[str, typer.Option("--by", help="function, kernel, stall, line, module, thread or process.")] = "",
    metric: MetricName = "",
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows.")] = 20,
    only: Focus = "",
    raw: Raw = False,
    no_idle: Idle = False,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Show where the time went, heaviest first."""
    detail = _DETAIL.get(by, "function")
    shown = view(profile, metric or (GPU_STALLS.name if by == "stall" else ""), detail=detail, raw=raw, only=only, no_idle=no_idle)
    question = by or ("kernel" if shown.metric in OF_GPU else "function")
    answer = ask(shown.tree, question)
    if json:
        typer.echo(to_json(answer, shown.tree, shown.metric, rows))
    else:
        print_top(answer.head(rows), shown.tree, shown.metric, question)
