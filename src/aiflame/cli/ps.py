"""`aiflame ps`. It imports the standard library alone."""

from __future__ import annotations

import argparse
import shutil
import sys

from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say, say_json

DESCRIPTION = "Lists the programs with Python or CUDA that run on this machine, for aiflame attach."
EXAMPLES = ("aiflame ps", "aiflame ps --all --json")
_NARROW = 80


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="also programs without Python and CUDA")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    from aiflame.json_text import json_text, schema
    from aiflame.recorder.attach.listing import programs
    from aiflame.values import asdict

    listed = programs(every=options.all)
    if options.json:
        say_json(json_text({"schema": schema("ps"), "programs": [asdict(program) for program in listed]}, indent=1))
        return 0
    if not listed:
        say("no program with Python or CUDA runs here (--all: other programs too)", err=True)
        return 0
    width = max(shutil.get_terminal_size().columns, _NARROW) if sys.stdout.isatty() else None
    say(f"{'PID':>8} {'CPU s':>8} {'Threads':>7} {'Rank':>4}  {'Uses':22} Command")
    for one in listed:
        rank = "" if one.rank is None else str(one.rank)
        line = f"{one.pid:8} {one.cpu_s:8.1f} {one.threads:7} {rank:>4}  {', '.join(one.uses):22} {' '.join(one.command)}"
        say(line[:width])
        if one.obstacle:
            say(f"{'':32}({one.obstacle})")
    return 0
