"""`aiflame intra`: scopes, waits and roles inside kernels that were recorded with --intra."""

from __future__ import annotations

from argparse import Namespace

from aiflame.analyze.intra.kernels import intra, to_json
from aiflame.cli.support.arguments import add_json, add_profile, add_ranks, add_rows
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.cli.support.view import opened
from aiflame.json_text import json_text
from aiflame.render.terminal.intra_table import print_intra

DESCRIPTION = (
    "What happens inside Triton kernels that were recorded with --intra? Shows their scopes, the overlap of copies and math, waits, roles"
    " and tails."
)
EXAMPLES = ("aiflame record --intra auto -- python train.py", "aiflame intra", "aiflame intra run.aiflame matmul")
ROWS = 30


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    parser.add_argument("kernel", nargs="?", default="", metavar="[KERNEL]", help="only kernels with this in their name")
    add_rows(parser, ROWS, "scopes of each kernel")
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    kernels = intra(opened(options.profile, options.ranks).store, options.kernel)
    if options.json:
        say_json(json_text(to_json(kernels)))
    else:
        print_intra(kernels, options.rows)
