"""`aiflame export`: the profile in other tools' formats."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from aiflame.attribute.tree import Tree
from aiflame.cli.arguments import add_detail, add_grouping, add_json, add_metric, add_profile, add_ranks, add_selection
from aiflame.cli.parser import Parser, UsageError
from aiflame.cli.say import say_written
from aiflame.cli.view import selected
from aiflame.errors import AiflameError
from aiflame.exchange import collapsed, speedscope
from aiflame.render.output import new_file

DESCRIPTION = "How does another tool show this profile? Writes its stacks in that tool's format."
EXAMPLES = ("aiflame export --to speedscope -o run.speedscope.json", "aiflame export run.aiflame | flamegraph.pl > run.svg")
_WRITERS: Mapping[str, Callable[[Tree, str, TextIO], None]] = {"collapsed": collapsed.write, "speedscope": speedscope.write}


def add_arguments(parser: Parser) -> None:
    add_profile(parser, also=", or a file of collapsed stacks")
    parser.add_choice("--to", choices=_WRITERS, default="collapsed", metavar="FORMAT", help=f"{', '.join(_WRITERS)} (default: collapsed)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write (default: stdout)")
    add_metric(parser)
    add_grouping(parser)
    add_detail(parser)
    add_selection(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    if options.json and options.output is None:
        raise UsageError("--json describes the file that is written: name one with -o; stacks as JSON: --to speedscope")
    write = _WRITERS[options.to]
    shown = selected(options, options.by)
    if options.output is None:
        write(shown.tree, shown.metric, sys.stdout)
        return
    try:
        with new_file(options.output) as data, io.TextIOWrapper(data, encoding="utf-8") as file:
            write(shown.tree, shown.metric, file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(f"cannot write {options.output}: {reason}: choose another place with -o") from None
    if options.json:
        metric = shown.tree.metric(shown.metric)
        facts = {"format": options.to, "metric": shown.metric, "unit": metric.unit, "total": shown.tree.total(shown.metric)}
        say_written("export", options.output, **facts)
