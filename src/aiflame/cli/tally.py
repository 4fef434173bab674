"""`aiflame tally`: adds up calls of runtimes, kernels and bytes."""

from __future__ import annotations

from argparse import Namespace

from aiflame.analyze.tally import tally, to_json
from aiflame.cli.support.arguments import add_json, add_profile, add_ranks, add_rows
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.cli.support.view import opened
from aiflame.json_text import json_text
from aiflame.render.terminal.tally_table import print_tally

DESCRIPTION = (
    "Which calls did the program make, and what did they cost? Adds up the traced calls of each runtime (how often, how long, how many"
    " failed), the kernels that ran and the bytes that were moved."
)
EXAMPLES = ("aiflame tally", "aiflame tally run.aiflame --extended")
ROWS = 20


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    add_rows(parser, ROWS, "rows of each table")
    parser.add_argument("--extended", action="store_true", help="also a row for each thread or device")
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    sections = tally(opened(options.profile, options.ranks).store, extended=options.extended)
    if options.json:
        say_json(json_text(to_json(sections)))
    else:
        print_tally(sections, options.rows)
