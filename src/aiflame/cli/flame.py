"""`aiflame flame`: the flame graph as one interactive SVG file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.transforms.invert import inverted_for_reading
from aiflame.attribute.transforms.recursion import merge_recursion
from aiflame.cli.say import say
from aiflame.cli.view import BaseRanks, Detail, Focus, Grouping, Idle, MetricName, ProfilePath, Ranks, Raw, view
from aiflame.errors import AiflameError
from aiflame.render.flame_svg import svg
from aiflame.render.terminal.top_table import idle_note


def flame(
    profile: ProfilePath = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The SVG file.")] = Path("flame.svg"),
    metric: MetricName = "",
    by: Grouping = "code",
    detail: Detail = "",
    baseline: Annotated[Path | None, typer.Option(metavar="PROFILE", help="Compare with this one: red is more, blue is less.")] = None,
    inverted: Annotated[bool, typer.Option("--inverted", help="From the leaves up: who calls what is expensive?")] = False,
    icicle: Annotated[bool, typer.Option("--icicle", help="Draw it hanging down.")] = False,
    recursion: Annotated[bool, typer.Option("--merge-recursion", help="Fold functions that call themselves.")] = False,
    only: Focus = "",
    raw: Raw = False,
    no_idle: Idle = False,
    ranks: Ranks = "",
    base_ranks: BaseRanks = "",
    title: Annotated[str, typer.Option(help="The title.")] = "Flame graph",
) -> None:
    """Draw the flame graph."""
    shown = view(profile, metric, by, detail, raw, only, no_idle, ranks)
    tree, subtitle = shown.tree, shown.title
    if baseline is not None:
        before = view(baseline, shown.metric, by, detail, raw, only, no_idle, base_ranks)
        tree, subtitle = diff(before.tree, tree, shown.metric), f"{shown.of} compared with {before.of}"
    if recursion:
        tree = merge_recursion(tree)
    if inverted:
        tree = inverted_for_reading(tree)
    try:
        if baseline is not None:
            svg.write_diff(tree, output, title=title, subtitle=subtitle, inverted=inverted or icicle)
        else:
            svg.write(tree, shown.metric, output, title=title, subtitle=subtitle, inverted=inverted or icicle)
    except OSError as error:
        raise AiflameError(f"cannot write {output}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
    say(output)
    if told := idle_note(shown.tree, shown.metric):
        say(told, err=True)
