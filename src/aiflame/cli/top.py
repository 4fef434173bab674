"""`aiflame top`: the heaviest functions, lines, modules … as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from aiflame.analyze.phases import over_steps, phase_times
from aiflame.analyze.top import to_json
from aiflame.analyze.top import top as ask
from aiflame.attribute.groupings import CODE, LISTS
from aiflame.attribute.metrics import OF_GPU
from aiflame.attribute.tree import GPU_STALLS, Kind
from aiflame.cli.say import say_json
from aiflame.cli.view import Focus, Idle, MetricName, ProfilePath, Ranks, Raw, view
from aiflame.render.terminal.top_table import print_steps, print_top

_DETAIL = {"line": "line", "stall": "instruction"}


def top(
    profile: ProfilePath = None,
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(list(LISTS)[:-1])} or {list(LISTS)[-1]}.")] = "",
    metric: MetricName = "",
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows.")] = 20,
    only: Focus = "",
    raw: Raw = False,
    no_idle: Idle = False,
    ranks: Ranks = "",
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Show where the time went, heaviest first."""
    detail = _DETAIL.get(by, "function")
    asked = metric or (GPU_STALLS.name if by == "stall" else "")
    grouped = by if by in LISTS and LISTS[by].grouped else CODE
    shown = view(profile, asked, grouped, detail, raw=raw, only=only, no_idle=no_idle, ranks=ranks)
    of_kernels = shown.metric in OF_GPU and not set(shown.tree.kinds().tolist()).isdisjoint((Kind.GPU_KERNEL, Kind.GPU_COPY))
    question = by or ("kernel" if of_kernels else "function")
    answer = ask(shown.tree, question)
    steps = over_steps(phase_times(shown.tree, shown.metric)) if question == "step" else None
    if json:
        say_json(to_json(answer, shown.tree, shown.metric, rows, steps))
        return
    if steps is not None:
        print_steps(steps, shown.tree.metric(shown.metric))
    print_top(answer.head(rows), shown.tree, shown.metric, question)
