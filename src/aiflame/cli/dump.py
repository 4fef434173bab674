"""`aiflame dump`: all threads' stacks of a process that runs already, and the reasons of their waits."""

from __future__ import annotations

from argparse import Namespace

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.say import say, say_json
from aiflame.dump.described import describe
from aiflame.dump.ranks import job_of_process
from aiflame.dump.text import as_text, document
from aiflame.errors import harmless
from aiflame.json_text import json_text, schema

DESCRIPTION = "What does a process do at this moment, and what does each of its threads wait for? Also for one that hangs."
EXAMPLES = ("aiflame dump 4321", "aiflame dump 4321 4322 4323", "aiflame dump 4321 --job")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("pids", nargs="+", metavar="PID", help="the process; of several ones the stacks are compared")
    parser.add_argument("--job", action="store_true", help="all ranks of the process's job on this machine")
    parser.add_argument("--native", action="store_true", help="also the functions of the Python interpreter and of the C library")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")


def run(options: Namespace) -> None:
    pids = [_pid(text) for text in options.pids]
    if options.job:
        pids = [one for pid in pids for one in job_of_process(pid)]
    processes = [describe(pid) for pid in dict.fromkeys(pids)]
    if options.json:
        say_json(json_text({"schema": schema("dump"), **document(processes)}, indent=1))
    else:
        for line in as_text(processes, native=options.native):
            say(harmless(line))


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise UsageError(f"dump: {text} is no process id")
    return int(text)
