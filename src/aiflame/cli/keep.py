"""`aiflame keep`."""

from __future__ import annotations

import argparse

from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say
from aiflame.recorder.ring.asking import keep

DESCRIPTION = "Keeps the last minutes of a program that aiflame record --last records, and lets it go on."
EXAMPLES = (
    "aiflame record --last 2m -- python serve.py &",
    "aiflame keep 4711 slow since 14:00",
)


def add_arguments(parser: Parser) -> None:
    parser.usage = "aiflame keep PID REASON ..."
    parser.add_argument("pid", type=_pid, metavar="PID", help="any process of the program, or its recorder")
    parser.add_argument("reason", nargs="*", default=[], metavar="REASON", help="the reason, which becomes part of the profile's name")


def run(options: argparse.Namespace) -> None:
    say(keep(options.pid, " ".join(options.reason)))


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no process id")
    return int(text)
