"""`aiflame top`: the heaviest functions, lines, modules … as a table."""

from __future__ import annotations

from argparse import Namespace

from aiflame.analyze.phases import over_steps, phase_times
from aiflame.analyze.top import to_json, top
from aiflame.attribute.groupings import CODE, LISTS
from aiflame.attribute.metrics import OF_GPU
from aiflame.attribute.tree import GPU_STALLS, Kind
from aiflame.cli.arguments import add_json, add_metric, add_profile, add_ranks, add_rows, add_selection
from aiflame.cli.parser import Parser
from aiflame.cli.say import say_json
from aiflame.cli.view import selected
from aiflame.render.terminal.top_table import print_steps, print_top

DESCRIPTION = "What takes the most time? Lists the heaviest kernels, functions, layers or lines, one row each."
EXAMPLES = (
    "aiflame top",
    "aiflame top run.aiflame --by layer",
    "aiflame top --by stall  # the waits of GPU kernels",
    "aiflame top --by step   # the shortest, the median and the longest step",
)
_DETAIL = {"line": "line", "stall": "instruction"}
_ROWS = 20


def add_arguments(parser: Parser) -> None:
    add_profile(parser, also=", or a file of collapsed stacks")
    parser.add_choice(
        "--by", choices=LISTS, metavar="GROUPING", help=f"{', '.join(LISTS)} (default: kernel where kernels ran, else function)"
    )
    add_metric(parser)
    add_rows(parser, _ROWS)
    add_selection(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    by = options.by or ""
    options.detail = _DETAIL.get(by, "function")
    options.metric = options.metric or (GPU_STALLS.name if by == "stall" else "")
    shown = selected(options, by if by in LISTS and LISTS[by].grouped else CODE)
    of_kernels = shown.metric in OF_GPU and not set(shown.tree.kinds().tolist()).isdisjoint((Kind.GPU_KERNEL, Kind.GPU_COPY))
    question = by or ("kernel" if of_kernels else "function")
    answer = top(shown.tree, question)
    steps = over_steps(phase_times(shown.tree, shown.metric)) if question == "step" else None
    if options.json:
        say_json(to_json(answer, shown.tree, shown.metric, options.rows, steps))
        return
    if steps is not None:
        print_steps(steps, shown.tree.metric(shown.metric))
    print_top(answer.head(options.rows), shown.tree, shown.metric, question)
