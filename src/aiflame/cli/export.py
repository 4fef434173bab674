"""`aiflame export`: the profile in other tools' formats."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, TextIO

import typer

from aiflame.attribute.tree import Tree
from aiflame.cli.view import Detail, Focus, Grouping, Idle, MetricName, ProfilePath, Ranks, Raw, view
from aiflame.errors import AiflameError
from aiflame.exchange import collapsed, speedscope
from aiflame.render.output import new_file


class Format(str, Enum):
    COLLAPSED = "collapsed"
    SPEEDSCOPE = "speedscope"


_WRITERS: Mapping[Format, Callable[[Tree, str, TextIO], None]] = {
    Format.COLLAPSED: collapsed.write,
    Format.SPEEDSCOPE: speedscope.write,
}


def export(
    profile: ProfilePath = None,
    to: Annotated[Format, typer.Option("--to", help="The format.")] = Format.COLLAPSED,
    metric: MetricName = "",
    by: Grouping = "code",
    detail: Detail = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write (default: stdout).")] = None,
    only: Focus = "",
    raw: Raw = False,
    no_idle: Idle = False,
    ranks: Ranks = "",
) -> None:
    """Write the profile for another tool."""
    shown = view(profile, metric, by, detail, raw, only, no_idle, ranks)
    if output is None:
        _WRITERS[to](shown.tree, shown.metric, sys.stdout)
        return
    try:
        with new_file(output) as data, io.TextIOWrapper(data, encoding="utf-8") as file:
            _WRITERS[to](shown.tree, shown.metric, file)
    except OSError as error:
        raise AiflameError(f"cannot write {output}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
