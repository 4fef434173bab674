"""`aiflame top`: the heaviest functions, lines, modules … as a table."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.activity import with_activity
from aiflame.analyze.limits.groups import utilization, with_rates
from aiflame.analyze.overview.scope_line import host_steps
from aiflame.analyze.phases import over_steps, phase_times
from aiflame.analyze.step_times import Steps, over_all, step_times
from aiflame.analyze.top import to_json, top
from aiflame.attribute.groupings import CODE, LISTS
from aiflame.attribute.metrics import CALL_LINE, CLOCK, on_devices
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME, Kind
from aiflame.cli.support.arguments import add_json, add_metric, add_profile, add_ranks, add_rows, add_selection, add_whole_run
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.cli.support.view import View, scoped_view
from aiflame.render.terminal.top_table import print_scope, print_steps, print_top

DESCRIPTION = "What takes the most time? Lists the heaviest kernels, functions, layers or lines, one row each."
EXAMPLES = (
    "aiflame top",
    "aiflame top run.aiflame --by layer",
    "aiflame top --by stall  # the waits of GPU kernels",
    "aiflame top --by step   # the shortest, the median and the longest step",
    "aiflame top --whole-run  # with start-up, warm-up and the end",
)
_DETAIL = {"line": CALL_LINE, "stall": "instruction"}
_ROWS = 20


def add_arguments(parser: Parser) -> None:
    add_profile(parser, also=", or a file of collapsed stacks")
    parser.add_choice(
        "--by", choices=LISTS, metavar="GROUPING", help=f"{', '.join(LISTS)} (default: kernel where kernels ran, else function)"
    )
    add_metric(parser)
    add_rows(parser, _ROWS)
    parser.add_argument(
        "--each", action="store_true", help="by layer: a row for each layer, not one for all layers of one structure (layers.*.mlp)"
    )
    add_whole_run(parser)
    add_selection(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    by = options.by or ""
    options.detail = _DETAIL.get(by, "function")
    options.metric = options.metric or (GPU_STALLS.name if by == "stall" else "")
    shown = scoped_view(options, by if by in LISTS and LISTS[by].grouped else CODE)
    of_kernels = on_devices(shown.metric) and not set(shown.tree.kinds().tolist()).isdisjoint((Kind.GPU_KERNEL, Kind.GPU_COPY))
    question = by or ("kernel" if of_kernels else "function")
    by_clock = _by_clock(shown) if question == "step" else None
    empty = _empty(shown, question, by_clock)
    answer = top(shown.tree, "function" if empty else question, alike=not options.each).head(0 if empty else options.rows)
    answer = _with_activity(answer, shown, question, alike=not options.each) if not options.focus and not empty else answer
    steps = over_steps(phase_times(shown.tree, shown.metric)) if question == "step" else None
    line = shown.scoped.line if shown.scoped is not None else None
    used = utilization(shown.scoped.analysis) if shown.scoped is not None and shown.metric == GPU_TIME.name else None
    if options.json:
        of_scope, parts = line.to_json() if line is not None else None, used.to_json() if used is not None else None
        say_json(to_json(answer, shown.tree, shown.metric, None, steps, of_scope, by_clock, parts))
        return
    if shown.scoped is not None:
        unit = shown.tree.metric(shown.metric).unit
        beside = [] if options.no_idle else [f"{name}: {amount(value, unit)}" for name, value in shown.scoped.idle]
        beside += [used.text] if used is not None else []
        print_scope(shown.scoped.line, by_clock, idle=on_devices(shown.metric) and not options.no_idle, beside=beside, empty=empty)
    if empty:
        return
    if steps is not None:
        print_steps(steps, shown.tree.metric(shown.metric), sampled=shown.metric in CLOCK)
    print_top(answer, shown.tree, shown.metric, question)


def _with_activity(answer: pl.DataFrame, shown: View, question: str, *, alike: bool) -> pl.DataFrame:
    """The rows with columns of hardware counters or modelled operations, where there are some."""
    if shown.scoped is None or not on_devices(shown.metric):
        return answer
    analysis = shown.scoped.analysis
    answer = with_rates(answer, question, analysis, alike=alike)
    activity = analysis.activity
    if activity is None:
        return answer
    return with_activity(answer, question, analysis.sites, analysis.scoped_shared, activity, alike=alike)


def _by_clock(shown: View) -> Steps | None:
    """The wall-clock times of all steps, as in the report."""
    if shown.scoped is None:
        return None
    analysis = shown.scoped.analysis
    return over_all(step_times(host_steps(analysis), analysis.per_step))


def _empty(shown: View, question: str, by_clock: Steps | None) -> str:
    """Why there is nothing to list: a sentence, with a way to see more; "" if there is something."""
    if shown.scoped is None:
        return ""
    label = shown.tree.metric(shown.metric).label
    if not shown.tree.total(shown.metric) and not shown.scoped.line.whole_run:
        return f"There is no {label} in these steps: --whole-run lists that of the whole run"
    if question == "step" and by_clock is not None and not np.isin(shown.tree.kinds(), (Kind.STEP,)).any():
        return f"No {label} fell into a step, as the steps are too short to be sampled: run more of them, or record with --cpu-rate 1000"
    return ""
