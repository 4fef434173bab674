"""`aiflame flame`: the flame graph as one interactive SVG file."""

from __future__ import annotations

from argparse import Namespace

from aiflame.attribute.metrics import on_devices
from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.transforms.invert import inverted_for_reading
from aiflame.attribute.transforms.recursion import merge_recursion
from aiflame.attribute.tree import OF_LIMITS
from aiflame.cli.support.arguments import (
    add_base_ranks,
    add_baseline,
    add_detail,
    add_grouping,
    add_json,
    add_metric,
    add_output,
    add_profile,
    add_ranks,
    add_selection,
    add_whole_run,
)
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say, say_written
from aiflame.cli.support.view import View, scoped_view
from aiflame.errors import AiflameError
from aiflame.render.flame_svg import svg
from aiflame.render.terminal.top_table import idle_note

DESCRIPTION = "Where did the time go, and who called it? Draws the flame graph, or the difference of two, as one SVG file for a browser."
EXAMPLES = (
    "aiflame flame -o flame.svg",
    "aiflame flame after.aiflame --baseline before.aiflame",
    "aiflame flame --metric gpu-stalls --inverted  # by stall reason",
    "aiflame flame --whole-run  # with start-up, warm-up, the end, and idle GPUs",
)
KIND, LIMIT = COLORS = ("kind", "limit")


def add_arguments(parser: Parser) -> None:
    add_profile(parser, also=", or a file of collapsed stacks")
    add_output(parser, "flame.svg", "the SVG file")
    add_metric(parser)
    add_grouping(parser)
    add_detail(parser)
    add_baseline(parser)
    parser.add_choice(
        "--color", choices=COLORS, metavar="COLORS", help=f"{', '.join(COLORS)}: by the share of the device's limit (default: {KIND})"
    )
    parser.add_argument("--inverted", action="store_true", help="begin with the leaves, to see the callers of expensive functions")
    parser.add_argument("--icicle", action="store_true", help="draw the callers at the top, their callees below")
    parser.add_argument("--merge-recursion", action="store_true", help="fold functions that call themselves")
    add_whole_run(parser)
    add_selection(parser)
    add_ranks(parser)
    add_base_ranks(parser)
    parser.add_argument("--title", default="Flame graph", metavar="TEXT", help="the title (default: Flame graph)")
    add_json(parser)


def run(options: Namespace) -> None:
    shown = _of_scope(options)
    tree, subtitle = shown.tree, shown.title
    compared = options.baseline is not None
    by_limit = options.color == LIMIT
    if by_limit and (compared or OF_LIMITS[0] not in tree.metrics):
        why = "two profiles are compared" if compared else f"{shown.of} has no limits of {shown.label}"
        raise AiflameError(f"frames cannot be coloured by their limits: {why} (docs/limits.md says which have some)")
    if compared:
        base = Namespace(**{**vars(options), "profile": options.baseline, "metric": shown.metric, "ranks": options.base_ranks})
        before = _of_scope(base)
        if bool(shown.steps) != bool(before.steps):
            shown, before = (_of_scope(Namespace(**{**vars(one), "whole_run": True})) for one in (options, base))
        tree = diff(before.tree, shown.tree, shown.metric)
        subtitle = f"{shown.of}{shown.steps} compared with {before.of}{before.steps}"
    if options.merge_recursion:
        tree = merge_recursion(tree)
    if options.inverted:
        tree = inverted_for_reading(tree)
    hanging = options.inverted or options.icicle
    try:
        if compared:
            svg.write_diff(tree, options.output, title=options.title, subtitle=subtitle, inverted=hanging)
        else:
            write = svg.write_limits if by_limit else svg.write
            write(tree, shown.metric, options.output, title=options.title, subtitle=subtitle, inverted=hanging)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(f"cannot write {options.output}: {reason}: choose another place with -o") from None
    if options.json:
        metric = shown.tree.metric(shown.metric)
        facts = {"profile": shown.of, "metric": shown.metric, "unit": metric.unit, "total": shown.tree.total(shown.metric)}
        scope = shown.scoped.line.to_json() if shown.scoped is not None else None
        say_written("flame", options.output, scope=scope, **facts)
        return
    say(options.output)
    if shown.scoped is not None:
        say(shown.scoped.line.with_switch(), err=True)
        if shown.steps and on_devices(shown.metric) and not options.no_idle and shown.scoped.line.idle_text:
            say(shown.scoped.line.idle_text, err=True)
    if note := idle_note(shown.tree, shown.metric):
        say(note, err=True)


def _of_scope(options: Namespace) -> View:
    shown = scoped_view(options, options.by, keep_idle=True)
    if shown.steps and not shown.tree.total(shown.metric):
        raise AiflameError(f"there is no {shown.label} in {shown.of}{shown.steps}: --whole-run draws that of the whole run")
    return shown
