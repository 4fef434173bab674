"""`aiflame gate`: fails in CI if the newer of two versions of a program is slower."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from aiflame.analyze.gate.gate import Gate, gate
from aiflame.analyze.gate.refusals import refuse_incomplete
from aiflame.analyze.gate.run import Run, measure
from aiflame.analyze.gate.thresholds import GATE_METRICS, MARGIN, Thresholds, parse_percent, parse_threshold
from aiflame.analyze.gate.to_json import to_json
from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.view import opened
from aiflame.errors import AiflameError
from aiflame.render.gate.junit import junit
from aiflame.render.gate.markdown import markdown
from aiflame.render.output import new_file
from aiflame.render.terminal.gate_table import print_gate

DESCRIPTION = (
    "Is the new version slower? Compares runs of two versions of a program, and ends with exit status 3 if the new one is slower by more"
    " than a threshold and by more than the noise."
)
EXAMPLES = (
    "aiflame gate before.aiflame now.aiflame",
    "aiflame gate before-*.aiflame --new now-*.aiflame --junit gate.xml",
    "aiflame gate before-*.aiflame now.aiflame --threshold step=2% --margin 30%",
)
REGRESSION = 3
"""The exit status for regressions."""
T = TypeVar("T")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "profiles",
        nargs="*",
        type=Path,
        metavar="BASE ... [NEW]",
        help="profiles of the old version; without --new, the last one belongs to the new version",
    )
    parser.add_argument("--new", nargs="+", action="extend", type=Path, default=[], metavar="PROFILE", help="profiles of the new version")
    defaults = ", ".join(f"{metric.name}={metric.percent:g}" for metric in GATE_METRICS.values())
    parser.add_argument(
        "--threshold",
        action="append",
        type=_argument(parse_threshold),
        default=[],
        metavar="METRIC=PERCENT",
        help=f"how much slower a metric may become, or off (default: {defaults})",
    )
    parser.add_argument(
        "--margin",
        type=_argument(parse_percent),
        default=MARGIN,
        metavar="PERCENT",
        help=f"how much slower it may become where the noise is unknown (default: {MARGIN:g})",
    )
    parser.add_argument("--markdown", metavar="FILE", help="also write the answer as Markdown; -: print it instead")
    parser.add_argument("--junit", metavar="FILE", help="also write it as JUnit XML; -: print it instead")
    add_json(parser)


def run(options: Namespace) -> int:
    base, new = _sides(options.profiles, options.new)
    if (options.json, options.markdown == "-", options.junit == "-").count(True) > 1:
        raise UsageError("gate prints one of --json, --markdown - and --junit -: name a file for the others")
    names = _names([*base, *new])
    runs = [_measured(path, name) for path, name in zip((*base, *new), names, strict=True)]
    answer = gate(runs[: len(base)], runs[len(base) :], Thresholds.of(options.threshold, options.margin))
    _write(options.markdown, answer, markdown)
    _write(options.junit, answer, junit)
    _print(answer, options)
    return REGRESSION if answer.regressions else 0


def _print(answer: Gate, options: Namespace) -> None:
    """If the reader of the output leaves early (`| head`), the exit status stays the same."""
    try:
        if options.json:
            say_json(to_json(answer))
        elif "-" not in (options.markdown, options.junit):
            print_gate(answer)
        else:
            for line in (markdown if options.markdown == "-" else junit)(answer).rstrip("\n").split("\n"):
                say(line)
    except BrokenPipeError:
        sys.stdout = None


def _sides(profiles: Sequence[Path], new: Sequence[Path]) -> tuple[Sequence[Path], Sequence[Path]]:
    base, new = (profiles, new) if new else (profiles[:-1], profiles[-1:])
    if not base or not new:
        raise UsageError("gate needs profiles of both versions: aiflame gate BASE NEW, or aiflame gate BASE ... --new NEW ...")
    if twice := [str(path) for path, count in Counter(path.resolve() for path in (*base, *new)).items() if count > 1]:
        raise UsageError(f"gate got {Path(twice[0]).name} twice: each run counts once")
    return base, new


def _names(paths: Sequence[Path]) -> list[str]:
    """Names of profiles; whole paths if two have the same name."""
    counts = Counter(path.name for path in paths)
    return [path.name if counts[path.name] == 1 else str(path) for path in paths]


def _measured(path: Path, name: str) -> Run:
    profile = opened(path).store
    refuse_incomplete(profile, name)
    return measure(profile, name)


def _write(place: str | None, answer: Gate, render: Callable[[Gate], str]) -> None:
    if place is None or place == "-":
        return
    try:
        with new_file(Path(place)) as file:
            file.write(render(answer).encode())
    except OSError as error:
        raise AiflameError(f"cannot write {place}: {(error.strerror or str(error)).lower()}: choose another place") from None


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Turns errors of a parser into argparse's."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except AiflameError as error:
            raise ArgumentTypeError(str(error)) from None

    return parsed
