"""`aiflame attach`. It imports the standard library alone."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from aiflame.cli.support.parser import Parser
from aiflame.cli.support.pushing import add_push, queue_of
from aiflame.cli.support.recording_options import add_gpu_samples, add_samples, add_telemetry
from aiflame.cli.support.say import say
from aiflame.cli.support.seconds import parse_seconds
from aiflame.recorder import RecordOptions, parse_size, place_of
from aiflame.recorder.options import parse_counters, parse_sampling, parse_telemetry
from aiflame.recorder.supervise import signals_held

DESCRIPTION = "Records a program that runs already, and leaves it as it was."
EXAMPLES = (
    "aiflame attach 1234                  # until Ctrl-C",
    "aiflame attach 1234 --duration 20s -o slow.aiflame",
    "aiflame attach 1234 --job            # all ranks of its job on this machine",
    "aiflame ps                           # which programs run",
)


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
    parser.add_argument("--job", action="store_true", help="record all ranks of its job that run on this machine")
    parser.add_argument("--no-children", action="store_true", help="do not record its child processes")
    parser.add_argument("--max-size", default="0", metavar="SIZE", help="stop recording when the profile takes this much disk: 500M, 2G")
    add_samples(parser)
    parser.add_argument("--no-python", action="store_true", help="record native frames only")
    parser.add_argument("--no-meaning", action="store_true", help="run no Python of aiflame's in the program: no names of layers and steps")
    parser.add_argument("--no-cuda", action="store_true", help="record nothing of CUDA, and do not load CUPTI into the program")
    add_gpu_samples(parser, counters="off")
    add_telemetry(parser)
    add_push(parser)


def run(options: argparse.Namespace) -> int:
    from aiflame.cli.support.recorded import hand_over, say_sent, summarize
    from aiflame.recorder.attach.session import attach
    from aiflame.recorder.numbers import number_in_container

    seconds = parse_seconds("--duration", options.duration) if options.duration else 0.0
    push = queue_of(options)
    began = time.monotonic()

    def begun(after_s: float, processes: int) -> None:
        if not options.quiet:
            until = f"for {options.duration}" if seconds else "until Ctrl-C"
            others = f" and {processes - 1} more" if processes > 1 else ""
            named = f"{options.pid}{number_in_container(options.pid)}"
            say(f"aiflame: recording process {named}{others} since {after_s * 1e3:.0f} ms after the command, {until}", err=True)

    with signals_held():
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
                cuda=not options.no_cuda,
                gpu_sampling=parse_sampling(options.gpu_sampling),
                gpu_counters=parse_counters(options.gpu_counters),
                telemetry_ms=parse_telemetry(options.telemetry),
            ),
            seconds=seconds,
            whole_job=options.job,
            overwrite=options.force,
            seal_follows=not options.no_seal,
            begun=begun,
        )
        summarize(attached.recording, time.monotonic() - began, quiet=options.quiet)
        if not options.no_seal and hand_over(attached.recording, push) and push and not options.quiet:
            say_sent(attached.recording, options.push)
    return 0
