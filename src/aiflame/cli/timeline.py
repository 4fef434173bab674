"""`aiflame timeline`: the profile as a trace for the Perfetto UI."""

from __future__ import annotations

from argparse import Namespace

from aiflame.cli.support.arguments import add_json, add_output, add_profile, add_ranks
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say, say_written
from aiflame.cli.support.view import opened
from aiflame.errors import AiflameError
from aiflame.memory import keep_freed_memory
from aiflame.render.output import new_file
from aiflame.render.perfetto import trace as perfetto

DESCRIPTION = (
    "What ran when? Writes threads, layers, streams, kernels and copies in time, as a trace that opens in the Perfetto UI"
    " (https://ui.perfetto.dev)."
)
EXAMPLES = ("aiflame timeline -o run.pftrace",)


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    add_output(parser, "timeline.pftrace", "the trace")
    parser.add_argument("--no-samples", action="store_true", help="leave out the functions of CPU samples")
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    keep_freed_memory()
    shown = opened(options.profile, options.ranks)
    try:
        with new_file(options.output) as file:  # half a trace can be opened, and would mislead
            slices = perfetto.write_profile(shown.store, shown.meta.started, file, samples=not options.no_samples)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(f"cannot write {options.output}: {reason}: choose another place with -o") from None
    if options.json:
        say_written("timeline", options.output, slices=slices)
        return
    say(options.output)
    say(f"{slices:,} slices; open it in https://ui.perfetto.dev, where it stays in your browser", err=True)
