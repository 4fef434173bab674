"""Arguments that several commands have."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiflame.analyze.memory.at_moment import MOMENTS, at_moment
from aiflame.attribute.groupings import OF_TREES
from aiflame.attribute.memory.metrics import OF_MEMORY
from aiflame.attribute.metrics import DETAILS, METRICS
from aiflame.attribute.stacks.own_metrics import metric_rows
from aiflame.cli.support.parser import Parser, UsageError, near, not_one_of, number
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables

KNOWN = (*METRICS, *OF_MEMORY)
"""Metrics that any profile may have, beside those that it names itself."""


def add_profile(parser: Parser, also: str = "") -> None:
    parser.add_argument("profile", nargs="?", type=Path, metavar="[PROFILE]", help=f"the profile{also} (default: the newest one here)")


def add_output(parser: Parser, default: str, file: str) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path(default), metavar="FILE", help=f"{file} (default: {default})")


def add_metric(parser: Parser, choices: Collection[str] = KNOWN) -> None:
    """A profile may have more metrics than these choices: `known_metric` checks the name."""
    default = "(default: gpu-time where kernels ran, else cpu-time, else the profile's first)"
    parser.add_suggested("--metric", choices, "METRIC", f"{', '.join(choices)}, or one that an imported profile names itself {default}")
    parser.add_argument("--at", default="", metavar="MOMENT", help=f"with gpu-bytes and host-bytes: {MOMENTS} (default: peak)")
    parser.set_defaults(asked_by=parser.command)


def known_metric(profile: Tables, metric: str, command: str, at: str = "") -> str:
    """The metric, or "" for the profile's default; an error where no profile has it, nor this one. `at`: a moment of its memory."""
    rows = metric_rows(profile)
    if metric and metric not in rows:
        raise UsageError(f"{command} --metric: {not_one_of(metric, tuple(rows))}")
    return at_moment(profile, metric, at) if at else metric


@contextmanager
def metric_first(options: Namespace) -> Iterator[None]:
    """Where no profile can be opened, an error in the name of the metric is reported before that."""
    try:
        yield
    except UsageError:
        raise
    except AiflameError:
        metric = options.metric or ""
        if metric and metric not in KNOWN and near(metric, KNOWN):
            raise UsageError(f"{options.asked_by} --metric: {not_one_of(metric, KNOWN)}") from None
        raise


def add_grouping(parser: Parser) -> None:
    parser.add_choice("--by", choices=OF_TREES, default="code", metavar="GROUPING", help=f"group by {', '.join(OF_TREES)} (default: code)")


def add_detail(parser: Parser) -> None:
    parser.add_choice(
        "--detail",
        choices=DETAILS,
        metavar="DETAIL",
        help=f"how deep stacks go: {', '.join(DETAILS)} (default: instruction for samples of GPU instructions, else function)",
    )


def add_selection(parser: Parser) -> None:
    """Options that select the frames to show."""
    parser.add_argument("--focus", default="", metavar="REGEX", help="only frames whose name matches, and their callees")
    parser.add_argument("--raw", action="store_true", help="keep frames of the interpreter, of imports and of start-up")
    parser.add_argument(
        "--my-code", action="store_true", help="fold packages, libraries and the standard library into the line of yours that called them"
    )
    parser.add_argument("--no-idle", action="store_true", help="leave out the time in which a GPU had nothing to do")


def add_whole_run(parser: Parser) -> None:
    parser.add_argument("--whole-run", action="store_true", help="look at the whole run (default: at its steady steps, if it has any)")


def add_baseline(parser: Parser) -> None:
    parser.add_argument("--baseline", type=Path, metavar="PROFILE", help="compare with this profile: red is more now, blue is less")


def add_ranks(parser: Parser) -> None:
    parser.add_argument("--ranks", default="", metavar="RANKS", help="only these ranks of a parallel job: 0,7 or 0-3 (default: all)")


def add_base_ranks(parser: Parser) -> None:
    parser.add_argument("--base-ranks", default="", metavar="RANKS", help="only these ranks of the baseline")


def add_source_path(parser: Parser) -> None:
    parser.add_argument(
        "--source-path",
        type=Path,
        metavar="DIR",
        help="read sources that the profile does not hold from this folder; a file is looked up by the end of its path",
    )


def add_rows(parser: Parser, default: int, rows: str = "rows of the table") -> None:
    parser.add_argument("-n", "--rows", type=number(1), default=default, metavar="N", help=f"{rows} (default: {default})")


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
