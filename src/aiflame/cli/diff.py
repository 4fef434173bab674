"""`aiflame diff`: what got slower or faster between two recordings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.diff.comparison import at_one_period, compare, to_json
from aiflame.attribute.groupings import compared_by
from aiflame.attribute.metrics import COMPARED
from aiflame.attribute.transforms.difference import diff as diff_tree
from aiflame.cli.say import say, say_json
from aiflame.cli.view import BaseRanks, Ranks, View, opened, view
from aiflame.errors import AiflameError
from aiflame.profile.tables import OpenedProfile
from aiflame.render.flame_svg import svg
from aiflame.render.terminal.diff_table import print_comparison

ROWS, ROWS_OF_ONE = 10, 30
_GROUPINGS = ", ".join(dict.fromkeys(by for metric in COMPARED for by in compared_by(metric)))


def diff(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The profile of before.")],
    new: Annotated[Path | None, typer.Argument(metavar="NEW", help="The profile of now (with --base-ranks: or BASE again).")] = None,
    metric: Annotated[str, typer.Option("--metric", help=f"{', '.join(COMPARED)} (default: gpu-time where kernels ran).")] = "",
    by: Annotated[str, typer.Option("--by", help=f"{_GROUPINGS} (default: the first four that the metric has).")] = "",
    rows: Annotated[
        int | None, typer.Option("-n", "--rows", min=1, help=f"How many rows (default: {ROWS}; with --by {ROWS_OF_ONE}).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is within the noise.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
    ranks: Ranks = "",
    base_ranks: BaseRanks = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="SVG", help="Also draw the flame graph of the difference.")
    ] = None,
) -> None:
    """Show what got slower or faster between two recordings of a program, and whether it is more than noise."""
    if new is None and not base_ranks:
        raise AiflameError("compare with what? name a second profile, or ranks of the one with --base-ranks and --ranks")
    before, after = _Side.of(base, base_ranks), _Side.of(new or base, ranks)
    comparison = compare(profile_analysis(before.profile), profile_analysis(after.profile), metric, by)
    if json:
        say_json(to_json(comparison, everything=everything))
    else:
        print_comparison(comparison, rows or (ROWS_OF_ONE if by else ROWS), everything=everything)
    if output is not None:
        _draw(before, after, metric, output, told=not json)


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


def _draw(base: _Side, new: _Side, metric: str, output: Path, *, told: bool) -> None:
    now = new.view(metric)
    before = base.view(now.metric)
    was = at_one_period(before.tree, now.metric, (base.profile, new.profile))
    subtitle = f"{now.of} compared with {before.of}"
    try:
        svg.write_diff(diff_tree(was, now.tree, now.metric), output, title="Flame graph", subtitle=subtitle)
    except OSError as error:
        raise AiflameError(f"cannot write {output}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
    if told:
        say(output)
