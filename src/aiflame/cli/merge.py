"""`aiflame merge`: the stalls of one recording and the hardware counters of another become one profile."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from aiflame.attribute.merging.merge import merge, note, sampled_and_counted
from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.view import opened
from aiflame.json_text import json_text, schema
from aiflame.profile.opening import SUFFIX
from aiflame.values import asdict

DESCRIPTION = "Why does a kernel wait, and how far is it from its limit? Merges a recording with GPU stalls and one with GPU counters."
EXAMPLES = (
    "aiflame record -o stalls.aiflame --gpu-counters off -- python train.py",
    "aiflame record -o counters.aiflame --gpu-counters on -- python train.py",
    "aiflame merge stalls.aiflame counters.aiflame",
    "aiflame top stalls-merged.aiflame  # stalls and limits of each kernel",
)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("one", nargs="?", type=Path, metavar="A", help="a recording of the program, with GPU stalls or with GPU counters")
    parser.add_argument("other", nargs="?", type=Path, metavar="B", help="another recording of the same program, with the other of the two")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PROFILE", help="where to write the merged profile (default: the name of the one with stalls"
        f" and -merged{SUFFIX})",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="merge them although their commands, code or devices differ")
    add_json(parser)


def run(options: Namespace) -> None:
    if options.one is None or options.other is None:
        raise UsageError("merge needs two profiles: aiflame merge A B")
    sampled, counted = sampled_and_counted(opened(options.one).store, opened(options.other).store)
    name = sampled.path.name.removesuffix(SUFFIX)
    output = options.output or Path(f"{name}-merged{SUFFIX}")
    merged = merge(sampled, counted, output, force=options.force)
    if options.json:
        say_json(json_text({"schema": schema("merge"), "profile": str(output), "another_run": asdict(merged)}, indent=1))
    else:
        say(f"{note(merged)} -> {output}; next: aiflame top {output}, aiflame open {output}")
