"""`aiflame record`: standard library alone, and little of it until the program runs: it is waited for."""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.rank_numbers import parse_ranks
from aiflame.recorder import RecordOptions, leave_as, parse_sampling, parse_size, place_of, rank_here, run
from aiflame.recorder.intra import PRESETS, parse_intra
from aiflame.recorder.options import INTERVAL_MS, parse_telemetry
from aiflame.recorder.supervise import become
from aiflame.recorder.tracing import BACKENDS, DEFAULT, parse_trace

_USAGE = "aiflame record [-o PROFILE] [options] -- COMMAND ..."
_DEFAULT_WALL_RATE = 49
_NO_TERMINAL = 80
"""Columns of what is written into a file."""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="aiflame record",
        usage=_USAGE,
        description="Record a program and all its child processes.",
        formatter_class=partial(argparse.HelpFormatter, width=_columns() - 2),
    )
    result.add_argument("-o", "--output", type=Path, metavar="PROFILE", help="where to write the profile (default: COMMAND-TIME.aiflame)")
    result.add_argument("--force", action="store_true", help="replace PROFILE if it exists")
    result.add_argument(
        "--ranks", default="", metavar="RANKS", help="of a parallel job record these alone (0,7 or 0-3); the others just run (default: all)"
    )
    result.add_argument(
        "--cpu-rate", type=int, default=199, metavar="HZ", help="samples a second of CPU time and thread; 0: none (default: 199)"
    )
    result.add_argument(
        "--wall",
        type=int,
        nargs="?",
        const=_DEFAULT_WALL_RATE,
        default=0,
        metavar="HZ",
        help=f"also sample waiting threads, and say what they wait on (at {_DEFAULT_WALL_RATE} Hz if no rate is given)",
    )
    result.add_argument(
        "--max-size",
        type=str,
        default="0",
        metavar="SIZE",
        help="stop recording when the profile takes this much disk (500M, 2G)",
    )
    result.add_argument("--no-children", action="store_true", help="do not follow child processes")
    result.add_argument("--no-python", action="store_true", help="native frames only")
    result.add_argument("--no-cuda", action="store_true", help="leave CUDA alone")
    result.add_argument(
        "--gpu-sampling",
        default="auto",
        metavar="off|auto|PERIOD",
        help="sample what GPU instructions wait for: never, as often as is cheap, or every PERIOD cycles (default: auto)",
    )
    result.add_argument("--gpu-memory", action="store_true", help="also record what GPU memory is taken and given back")
    result.add_argument(
        "--no-meaning", action="store_true", help="run no Python of ours in the program: no names of layers, steps and kernels"
    )
    result.add_argument("--no-regions", action="store_true", help="leave NVTX and ITT alone")
    result.add_argument(
        "--triton-names", action="store_true", help="put readable names of Triton kernels into the binaries, for other tools too"
    )
    result.add_argument("--keep-ir", action="store_true", help="keep what compilers make on the way: FX graphs, TTIR, TTGIR, PTX, HLO")
    result.add_argument(
        "--trace",
        default="auto",
        metavar="LIST",
        help=f"record each call of these runtimes: {', '.join(BACKENDS)}, all or off (default: {DEFAULT})",
    )
    result.add_argument("--trace-stacks", action="store_true", help="record where each traced call was made, however many there are")
    result.add_argument(
        "--intra",
        default="",
        metavar="PASSES[:KERNELS]",
        help=f"time parts inside of Triton kernels: {', '.join(PRESETS)}, or a file with passes; KERNELS: an expression for their names",
    )
    result.add_argument(
        "--intra-warps", default="", metavar="LIST", help="the warps of a block that are timed, like 0,4 (default: one of each four)"
    )
    result.add_argument(
        "--intra-launches", type=int, default=0, metavar="N", help="launches of each kernel that are timed, at most (default: 20)"
    )
    result.add_argument("--intra-memory", default="0", metavar="SIZE", help="memory of the GPU for these times (default: 256M)")
    result.add_argument(
        "--telemetry",
        default=str(INTERVAL_MS),
        metavar="MS|off",
        help=f"read load, memory, power … of the machine every MS milliseconds (default: {INTERVAL_MS})",
    )
    result.add_argument(
        "--wait-daemons", action="store_true", help="end when the processes that the command leaves running have ended, too"
    )
    result.add_argument("--no-seal", action="store_true", help="leave the raw recording; the next command that opens it seals it")
    result.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    result.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="what to run")
    return result


def _columns() -> int:
    """How wide the terminal is. argparse asks at each option, by a module that takes longer to import than all of this file."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else -1).columns or _NO_TERMINAL
    except OSError:
        return _NO_TERMINAL


def record(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser().error("no command to record: put it behind --")
    rank, chosen = rank_here(os.environ), parse_ranks(options.ranks) if options.ranks else None
    if chosen is not None:
        if rank is None:
            raise AiflameError(
                f"--ranks {options.ranks}: no variable of a launcher says which rank this is: start it by mpirun, srun or torchrun, "
                "or leave --ranks out"
            )
        if rank.rank not in chosen:
            become(command)
    began = time.monotonic()
    recording = run(
        command,
        place_of(options.output, command, rank, chosen),
        RecordOptions(
            cpu_rate=options.cpu_rate,
            wall_rate=options.wall,
            max_bytes=parse_size(options.max_size),
            children=not options.no_children,
            python=not options.no_python,
            cuda=not options.no_cuda,
            gpu_sampling=parse_sampling(options.gpu_sampling),
            gpu_memory=options.gpu_memory,
            meaning=not options.no_meaning,
            regions=not options.no_regions,
            triton_names=options.triton_names,
            keep_ir=options.keep_ir,
            trace=parse_trace(options.trace),
            trace_stacks=options.trace_stacks,
            intra=parse_intra(
                options.intra, warps=options.intra_warps, launches=options.intra_launches, memory=parse_size(options.intra_memory)
            ),
            telemetry_ms=parse_telemetry(options.telemetry),
        ),
        overwrite=options.force,
        seal_follows=not options.no_seal,
        wait_daemons=options.wait_daemons,
    )
    from aiflame.cli.recorded import hand_over, summarize

    summarize(recording, time.monotonic() - began, quiet=options.quiet)
    if not options.no_seal and not recording.living:
        hand_over(recording)
    return leave_as(recording.status)
