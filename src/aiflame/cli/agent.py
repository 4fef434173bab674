"""`aiflame agent`. It imports the standard library alone."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.recording_options import add_samples
from aiflame.cli.support.say import say
from aiflame.cli.support.seconds import parse_seconds
from aiflame.cli.support.stores import default_store
from aiflame.errors import harmless
from aiflame.recorder import parse_size

DESCRIPTION = (
    "Records the programs of this machine all the time: finds each process of this user that uses Python or a GPU as it starts, records"
    " short windows of it within a budget, and keeps them in a store, hour by hour."
)
EXAMPLES = (
    "aiflame agent --budget 0.5% --keep 14d",
    "aiflame agent --command 'train|serve' --store /srv/aiflame",
    "aiflame open --store /srv/aiflame --from 14:00 --to 15:00",
    "aiflame diff '/srv/aiflame@yesterday 14:00' /srv/aiflame@14:00",
)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--store", type=Path, metavar="DIR", help="the store's folder (default: ~/.local/state/aiflame/store)")
    parser.add_argument("--list", action="store_true", help="list the hours of the store, and end")
    parser.add_argument("--command", default="", metavar="REGEX", help="only processes whose command line matches")
    parser.add_argument("--cgroup", default="", metavar="PATH", help="only processes of this control group, and of those in it")
    parser.add_argument(
        "--budget", default="1%", metavar="SHARE", help="the most processor time of the machine that this may take (default: 1%%)"
    )
    parser.add_argument("--window", default="10s", metavar="TIME", help="the length of a window (default: 10s)")
    parser.add_argument(
        "--every", default="5m", metavar="TIME", help="a window of each process, on average, where the budget allows it (default: 5m)"
    )
    add_samples(parser, cpu_rate=49, wall_rate=19)
    parser.add_argument("--no-meaning", action="store_true", help="run no Python of aiflame's in the programs: no names of layers")
    parser.add_argument("--keep", default="7d", metavar="TIME", help="hours that are older are removed (default: 7d)")
    parser.add_argument(
        "--max-size", default="2G", metavar="SIZE", help="the most disk that the store takes; then the oldest hours go (default: 2G)"
    )
    parser.add_argument("--write-every", default="5m", metavar="TIME", help="add recorded windows to the store this often (default: 5m)")


def run(options: argparse.Namespace) -> int:
    store = (options.store or default_store()).absolute()
    if options.list:
        _list(store)
        return 0
    from aiflame.always.agent import Agent, Options
    from aiflame.always.discovery import Filters
    from aiflame.always.window import Settings

    try:
        re.compile(options.command)
    except re.error as error:
        raise UsageError(f"--command {options.command}: not a regular expression ({error})") from None
    agent = Agent(
        Options(
            store=store,
            filters=Filters(options.command, options.cgroup),
            settings=Settings(
                parse_seconds("--window", options.window, 1, 3600), options.cpu_rate, options.wall, meaning=not options.no_meaning
            ),
            budget=_share(options.budget),
            every_s=parse_seconds("--every", options.every, 1, 86_400),
            write_every_s=parse_seconds("--write-every", options.write_every, 1, 3600),
            keep_s=parse_seconds("--keep", options.keep, 3600, 3650 * 86_400),
            max_bytes=parse_size(options.max_size),
        ),
        started_s=0.0,
    )
    say(f"aiflame: recording into {store}, until Ctrl-C", err=True)
    agent.run()
    counts = ", ".join(f"{count:,} {name}" for name, count in agent.counts.items())
    say(f"aiflame: {counts}; {agent.spent_s:.1f} s of processor time", err=True)
    return 0


def _list(path: Path) -> None:
    from aiflame.store.listing import listed

    rows = listed(path)
    say(f"{'Hour':16} {'Windows':>8} {'Processes':>9} {'Recorded':>9} {'Size':>9}")
    for row in rows:
        if row.problem:
            say(f"{row.begins:16} {harmless(row.problem)}")
            continue
        say(f"{row.begins:16} {row.windows:8,} {row.processes:9,} {row.recorded_s:7,.0f} s {row.size / 1e6:6,.1f} MB")


def _share(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    share = float(match[1]) / 100 if match else 0.0
    if not 0.0001 <= share <= 0.5:
        raise UsageError(f"--budget {text}: write a share of the machine of 0.01% to 50%, like 1%")
    return share
