"""`aiflame diff`: compares two recordings of a program."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.diff.comparison import at_one_period, compare, to_json
from aiflame.attribute.groupings import compared_by
from aiflame.attribute.metrics import COMPARED, METRIC_ROWS
from aiflame.attribute.transforms.difference import diff as diff_tree
from aiflame.cli.support.arguments import add_base_ranks, add_json, add_metric, add_ranks, known_metric, metric_first
from aiflame.cli.support.parser import Parser, UsageError, number
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.view import View, opened, view
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.flame_svg import svg
from aiflame.render.terminal.diff_table import print_comparison
from aiflame.values import dataclass

DESCRIPTION = "What got slower or faster between two recordings of a program, and is it more than noise?"
EXAMPLES = ("aiflame diff before.aiflame after.aiflame --by layer", "aiflame diff job.aiflame --base-ranks 0 --ranks 3")
ROWS, ROWS_OF_ONE = 10, 30
_GROUPINGS = tuple(dict.fromkeys(by for metric in COMPARED for by in compared_by(METRIC_ROWS[metric])))


def add_arguments(parser: Parser) -> None:
    parser.add_argument("base", nargs="?", type=Path, metavar="BASE", help="the profile of the old version")
    parser.add_argument(
        "new", nargs="?", type=Path, metavar="[NEW]", help="the profile of the new version (with --base-ranks, default: BASE)"
    )
    add_metric(parser, COMPARED)
    parser.add_choice(
        "--by", choices=_GROUPINGS, metavar="GROUPING", help=f"{', '.join(_GROUPINGS)} (default: the first four that the metric has)"
    )
    parser.add_argument("-n", "--rows", type=number(1), metavar="N", help=f"rows of each table (default: {ROWS}; with --by {ROWS_OF_ONE})")
    parser.add_argument("--all", action="store_true", help="also list differences within the noise")
    add_ranks(parser)
    add_base_ranks(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also draw the flame graph of the difference, as SVG")
    add_json(parser)


def run(options: Namespace) -> None:
    if options.base is None:
        raise UsageError("diff needs two profiles: aiflame diff BASE NEW")
    if options.new is None and not options.base_ranks:
        raise AiflameError("compare with what? name a second profile, or ranks of the one with --base-ranks and --ranks")
    with metric_first(options):
        before, after = _Side.of(options.base, options.base_ranks), _Side.of(options.new or options.base, options.ranks)
    by = options.by or ""
    metric = known_metric(after.profile, options.metric or "", options.asked_by, options.at)
    comparison = compare(profile_analysis(before.profile), profile_analysis(after.profile), metric, by)
    if options.json:
        say_json(to_json(comparison, everything=options.all))
    else:
        print_comparison(comparison, options.rows or (ROWS_OF_ONE if by else ROWS), everything=options.all)
    if options.output is not None:
        _draw(before, after, metric, options.output, announce=not options.json)


@dataclass(frozen=True, slots=True)
class _Side:
    path: Path
    ranks: str
    profile: OpenedProfile

    @staticmethod
    def of(path: Path, ranks: str) -> _Side:
        return _Side(path, ranks, opened(path, ranks).store)

    def view(self, metric: str) -> View:
        return view(self.path, metric, ranks=self.ranks)


def _draw(base: _Side, new: _Side, metric: str, output: Path, *, announce: bool) -> None:
    now = new.view(metric)
    before = base.view(now.metric)
    was = at_one_period(before.tree, now.metric, (base.profile, new.profile))
    subtitle = f"{now.of} compared with {before.of}"
    try:
        svg.write_diff(diff_tree(was, now.tree, now.metric), output, title="Flame graph", subtitle=subtitle)
    except OSError as error:
        raise AiflameError(f"cannot write {output}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
    if announce:
        say(output)
