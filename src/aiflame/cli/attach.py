"""`aiflame attach`. It imports the standard library alone."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.say import say
from aiflame.recorder import RecordOptions, parse_size, place_of
from aiflame.recorder.options import INTERVAL_MS, parse_telemetry

DESCRIPTION = "Records a program that runs already, and leaves it as it was."
EXAMPLES = (
    "aiflame attach 1234                  # until Ctrl-C",
    "aiflame attach 1234 --duration 20s -o slow.aiflame",
    "aiflame ps                           # which programs run",
)
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DEFAULT_WALL_RATE = 49


def add_arguments(parser: Parser) -> None:
    parser.add_argument("pid", type=int, metavar="PID", help="the process: aiflame ps lists them")
    parser.add_argument(
        "--duration", default="", metavar="TIME", help="record so long: 20s, 5m (default: until Ctrl-C, or the program's end)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="PROFILE", help="where to write the profile (default: COMMAND-TIME.aiflame)")
    parser.add_argument("--force", action="store_true", help="replace PROFILE if it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument(
        "--no-seal", action="store_true", help="keep the raw files; the next command that opens the profile makes its tables"
    )
    parser.add_argument("--no-children", action="store_true", help="do not follow child processes that it starts by fork")
    parser.add_argument("--max-size", default="0", metavar="SIZE", help="stop recording when the profile takes this much disk: 500M, 2G")
    parser.add_argument(
        "--cpu-rate", type=int, default=199, metavar="HZ", help="samples per second of each thread's CPU time (default: 199)"
    )
    parser.add_argument(
        "--wall",
        type=int,
        nargs="?",
        const=_DEFAULT_WALL_RATE,
        default=0,
        metavar="HZ",
        help="also sample threads that wait, with the reason",
    )
    parser.add_argument("--no-python", action="store_true", help="record native frames only")
    parser.add_argument("--no-meaning", action="store_true", help="run no Python of aiflame's in the program: no names of layers and steps")
    parser.add_argument(
        "--telemetry",
        default=str(INTERVAL_MS),
        metavar="MS|off",
        help=f"read load, memory … every MS milliseconds (default: {INTERVAL_MS})",
    )


def run(options: argparse.Namespace) -> int:
    from aiflame.cli.support.recorded import hand_over, summarize
    from aiflame.recorder.attach.session import attach

    seconds = _seconds(options.duration)
    began = time.monotonic()

    def begun(after_s: float) -> None:
        if not options.quiet:
            until = f"for {options.duration}" if seconds else "until Ctrl-C"
            say(f"aiflame: recording process {options.pid} since {after_s * 1e3:.0f} ms after the command, {until}", err=True)

    attached = attach(
        options.pid,
        lambda command: place_of(options.output, command, None),
        RecordOptions(
            cpu_rate=options.cpu_rate,
            wall_rate=options.wall,
            max_bytes=parse_size(options.max_size),
            children=not options.no_children,
            python=not options.no_python,
            meaning=not options.no_meaning,
            telemetry_ms=parse_telemetry(options.telemetry),
        ),
        seconds=seconds,
        overwrite=options.force,
        begun=begun,
    )
    summarize(attached.recording, time.monotonic() - began, quiet=options.quiet)
    if not options.no_seal:
        hand_over(attached.recording)
    return 0


def _seconds(text: str) -> float:
    """`20s`, `5m` → seconds; 0 of nothing."""
    if not text:
        return 0.0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text.strip().lower())
    if not match or float(match[1]) == 0:
        raise UsageError(f"--duration {text}: write it like 20s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]
