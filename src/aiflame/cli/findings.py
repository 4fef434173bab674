"""`aiflame findings`: the largest avoidable costs in a profile, and a remedy for each."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from aiflame.analyze.findings.listing import listing, to_json
from aiflame.analyze.memory.refusals import refusals
from aiflame.attribute.analysis import Analysis
from aiflame.cli.support.arguments import add_json, add_profile, add_ranks, add_rows, add_whole_run
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.cli.support.view import opened
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.findings_list import print_findings

DESCRIPTION = "Why is it slow? Lists avoidable costs, the largest first, each with its line, its stall and a remedy."
EXAMPLES = ("aiflame findings", "aiflame findings run.aiflame --json", "aiflame record --findings -- python train.py")
ROWS = 10


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    add_rows(parser, ROWS, "at most this many findings")
    add_whole_run(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    profile = opened(options.profile, options.ranks)
    answer = listing(profile.store, options.rows, whole_run=options.whole_run)
    if options.json:
        say_json(to_json(answer))
    else:
        print_findings(answer, str(profile.path))


def print_first(path: Path, rows: int, *, as_json: bool) -> None:
    """Prints the first findings of a profile that was just recorded on stderr: stdout belongs to the program."""
    answer = listing(opened(path).store, rows)
    if as_json:
        print(to_json(answer), file=sys.stderr, flush=True)
    else:
        print_findings(answer, str(path), Terminal(stderr=True))


def refusal(path: Path) -> str:
    """The sentence on the first allocation that failed in a profile that was just recorded; "" if none is known."""
    return next((one.sentence for one in refusals(Analysis(opened(path).store))), "")
