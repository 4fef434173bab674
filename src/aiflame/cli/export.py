"""`aiflame export`: the profile in other tools' formats."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TextIO

from aiflame.cli.support import exported
from aiflame.cli.support.arguments import add_detail, add_json, add_metric, add_profile, add_ranks, add_selection
from aiflame.cli.support.exported import GROUPINGS, Written
from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.say import say, say_written
from aiflame.errors import AiflameError
from aiflame.render.output import new_file
from aiflame.values import dataclass

DESCRIPTION = "How does another tool show this profile? Writes it in that tool's format."
EXAMPLES = (
    "aiflame export --to speedscope -o run.speedscope.json",
    "aiflame export run.aiflame | flamegraph.pl > run.svg",
    "aiflame export --to pprof -o run.pb.gz  # go tool pprof -http : run.pb.gz",
    "aiflame export --to kineto -o run.json.gz  # for HTA and TraceLens",
)
_SHAPE = ("metric", "detail", "raw", "my_code", "no_idle")
_TREE = (*_SHAPE, "focus", "by")
_AT_A_MOMENT = (*_TREE, "at")
_TIMES = ("no_samples",)
_DEFAULTS = {
    "metric": None,
    "at": "",
    "detail": None,
    "focus": "",
    "raw": False,
    "my_code": False,
    "no_idle": False,
    "by": None,
    "no_samples": False,
}


@dataclass(frozen=True, slots=True)
class _Row:
    takes: tuple[str, ...]
    """The options that change the file."""
    lacks: str
    """The facts that the format cannot carry, for people; "": it carries all that is recorded."""
    text: Callable[[Namespace, TextIO], Written] | None = None
    """How it is written; one of these three."""
    binary: Callable[[Namespace, BinaryIO], Written] | None = None
    folder: Callable[[Namespace, Path], Written] | None = None


_TIMES_LACK = "times: when something ran"
_WRITERS: Mapping[str, _Row] = {
    "collapsed": _Row(_AT_A_MOMENT, "other metrics, lines of the source, and times", text=exported.collapsed_stacks),
    "speedscope": _Row(_AT_A_MOMENT, "other metrics, and times", text=exported.speedscope_stacks),
    "chrome": _Row(_TIMES, "amounts: energy, samples of warps, values of hardware counters by kernel", text=exported.chrome_trace),
    "kineto": _Row(_TIMES, "CPU time, phases, counters, samples of warps, and calls of MPI and the like", text=exported.kineto_trace),
    "pprof": _Row(_SHAPE, _TIMES_LACK, binary=exported.pprof_profile),
    "otlp": _Row(_SHAPE, _TIMES_LACK, binary=exported.otlp_profile),
    "firefox": _Row(_TIMES, "amounts (energy, samples of warps), counters, and arrows", text=exported.firefox_profile),
    "hatchet": _Row(_TREE, _TIMES_LACK, text=exported.hatchet_tree),
    "torch-memory": _Row((), "metrics of time", binary=exported.torch_snapshot),
    "csv": _Row(_AT_A_MOMENT, "stacks, and times", text=exported.csv_rows),
    "parquet": _Row((), "", folder=exported.parquet_tables),
}


def add_arguments(parser: Parser) -> None:
    add_profile(parser, also=", or a file of collapsed stacks")
    parser.add_choice("--to", choices=_WRITERS, default="collapsed", metavar="FORMAT", help=f"{', '.join(_WRITERS)} (default: collapsed)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write, for parquet a folder; texts are packed where its name ends in .gz (default: stdout)",
    )
    add_metric(parser)
    parser.add_choice(
        "--by",
        choices=GROUPINGS,
        metavar="GROUPING",
        help="a grouping of `flame` (default: code); for csv a list of `top`",
    )
    add_detail(parser)
    add_selection(parser)
    parser.add_argument("--no-samples", action="store_true", help="chrome, kineto, firefox: leave out the functions of CPU samples")
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    row = _WRITERS[options.to]
    if options.json and options.output is None:
        raise UsageError("--json describes the file that is written: name one with -o; stacks as JSON: --to speedscope")
    for name, default in _DEFAULTS.items():
        if name not in row.takes and getattr(options, name) != default:
            raise UsageError(f"export --{name.replace('_', '-')} changes nothing in the format {options.to}: leave it out")
    if options.output is None:
        _print(row, options)
        return
    try:
        written = _written(row, options)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(f"cannot write {options.output}: {reason}: choose another place with -o") from None
    notes = [*written.notes, *([f"{options.to} cannot carry {row.lacks} (docs/export.md)"] if row.lacks else [])]
    if options.json:
        say_written("export", options.output, format=options.to, **written.facts, notes=notes)
        return
    for note in notes:
        say(f"aiflame: {note}", err=True)


def _written(row: _Row, options: Namespace) -> Written:
    if row.folder is not None:
        return row.folder(options, options.output)
    with new_file(options.output) as data:
        if row.binary is not None:
            return row.binary(options, data)
        assert row.text is not None
        with contextlib.ExitStack() as stack:
            packed = stack.enter_context(gzip.GzipFile("", "wb", 6, data, 0)) if options.output.name.endswith(".gz") else data
            return row.text(options, stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8", newline="")))


def _print(row: _Row, options: Namespace) -> None:
    if row.text is not None:
        row.text(options, sys.stdout)
        return
    if row.binary is None:
        raise UsageError(f"export --to {options.to} makes a folder of files: name a new one with -o")
    if sys.stdout.isatty():
        raise UsageError(f"export --to {options.to} is no text for a terminal: name a file with -o")
    row.binary(options, sys.stdout.buffer)
