"""`aiflame report`: the profile as one HTML file."""

from __future__ import annotations

from argparse import Namespace

from aiflame.analyze.amounts import amount
from aiflame.cli.support.arguments import (
    add_base_ranks,
    add_baseline,
    add_json,
    add_output,
    add_profile,
    add_ranks,
    add_source_path,
    add_whole_run,
)
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say, say_written
from aiflame.cli.support.view import of_ranks, opened, source_folder
from aiflame.memory import keep_freed_memory
from aiflame.render.report.document import write

DESCRIPTION = "How do I show this profile to somebody else? Writes the report as one HTML file, which opens without a network."
EXAMPLES = ("aiflame report -o run.html", "aiflame report after.aiflame --baseline before.aiflame")
LARGE = 64 << 20
"""In bytes. Browsers take seconds to open larger files."""


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    add_output(parser, "report.html", "the HTML file")
    add_baseline(parser)
    parser.add_argument("--title", default="", metavar="TEXT", help="the title (default: the profile's name)")
    add_whole_run(parser)
    add_source_path(parser)
    add_ranks(parser)
    add_base_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    keep_freed_memory()
    shown = opened(options.profile, options.ranks)
    before = opened(options.baseline, options.base_ranks).store if options.baseline is not None else None
    title = options.title or of_ranks(shown, options.ranks)
    size = write(shown.store, options.output, before, title, source_folder(options.source_path), whole_run=options.whole_run)
    if options.json:
        say_written("report", options.output, title=title)
        return
    say(options.output)
    if size > LARGE:
        say(f"{options.output} has {amount(size, 'bytes')}: aiflame open shows the same without one large file", err=True)
