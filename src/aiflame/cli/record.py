"""`aiflame record`. It imports only the standard library, and little of that before the program starts, so as not to delay the start."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.pushing import add_push, queue_of
from aiflame.cli.support.recording_options import add_gpu_samples, add_samples, add_telemetry
from aiflame.errors import AiflameError
from aiflame.profile.ranks.rank_numbers import parse_ranks
from aiflame.recorder import Recording, RecordOptions, leave_as, parse_counters, parse_sampling, parse_size, place_of, rank_here
from aiflame.recorder import run as record
from aiflame.recorder.intra import PRESETS, parse_intra
from aiflame.recorder.options import MOST_KEPT, parse_host_memory, parse_last, parse_telemetry
from aiflame.recorder.supervise import become, signals_held
from aiflame.recorder.tracing import BACKENDS, DEFAULT, parse_trace

DESCRIPTION = "Records a program and all its child processes, and ends with the program's exit status."
EXAMPLES = (
    "aiflame record -- python train.py",
    "aiflame record --wall -- python serve.py       # also threads that wait",
    "mpirun -n 4 aiflame record -- python train.py  # all ranks in one profile",
)


def add_arguments(parser: Parser) -> None:
    parser.usage = "aiflame record [-o PROFILE] [options] -- COMMAND ..."
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="the program to run, and its arguments")
    parser.add_argument("-o", "--output", type=Path, metavar="PROFILE", help="where to write the profile (default: COMMAND-TIME.aiflame)")
    parser.add_argument("--force", action="store_true", help="replace PROFILE if it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, on stderr: stdout is the program's")
    parser.add_argument("--findings", action="store_true", help="print the first three findings when the program has ended")

    group = parser.add_argument_group("which processes, and for how long")
    group.add_argument("--no-children", action="store_true", help="do not follow child processes")
    group.add_argument(
        "--ranks",
        default="",
        metavar="RANKS",
        help="record only these ranks of a parallel job: 0,7 or 0-3; the others just run (default: all)",
    )
    group.add_argument("--max-size", default="0", metavar="SIZE", help="stop recording when the profile takes this much disk: 500M, 2G")
    group.add_argument("--wait-daemons", action="store_true", help="end when the processes that the command leaves running have ended, too")
    group.add_argument(
        "--no-seal", action="store_true", help="keep the raw files; the next command that opens the profile makes its tables from them"
    )

    group = parser.add_argument_group("flight recorder: only the last minutes, kept when something happens")
    group.add_argument(
        "--last",
        default="",
        metavar="TIME",
        help="record into a ring of so much time, like 90s or 2m, and keep it as a profile at the end and at the events of --on;"
        " --max-size then bounds the ring, and stops nothing",
    )
    group.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="EVENT",
        help="also keep it at slow-step:3x (a step takes 3 medians), hang:60s (no step ends for so long), signal:USR2 (sent to aiflame)",
    )
    group.add_argument("--keep", type=_count, default=0, metavar="N", help="the most profiles kept of this run, the newest (default: 20)")

    add_push(parser)

    group = parser.add_argument_group("samples of threads")
    add_samples(group, "; the command stands behind --")
    group.add_argument(
        "--no-waits", dest="waits", action="store_false", help="do not look at waiting threads; findings then lack the reasons for waits"
    )
    group.add_argument("--no-python", action="store_true", help="record native frames only")

    group = parser.add_argument_group("GPUs")
    group.add_argument("--no-cuda", action="store_true", help="record nothing of CUDA")
    group.add_argument("--no-rocm", action="store_true", help="record no kernels of AMD's GPUs, and give rocprofiler-sdk no tool")
    add_gpu_samples(group, counters="auto")
    group.add_argument("--gpu-memory", action="store_true", help="also record allocations of GPU memory")

    group = parser.add_argument_group("host memory")
    group.add_argument("--host-memory", action="store_true", help="also record where host memory is allocated and freed, by samples")
    group.add_argument(
        "--host-memory-every",
        default="",
        metavar="SIZE",
        help="a sample for each SIZE of allocated memory, on average (default: 512K); 1 records every allocation",
    )

    group = parser.add_argument_group("names")
    group.add_argument(
        "--no-meaning", action="store_true", help="run no Python of aiflame's in the program: no names of layers, steps and kernels"
    )
    group.add_argument("--no-regions", action="store_true", help="record no NVTX and ITT regions")
    group.add_argument(
        "--triton-names", action="store_true", help="put readable names of Triton kernels into the binaries, for other tools too"
    )
    group.add_argument("--keep-ir", action="store_true", help="keep the compilers' intermediate code: FX graphs, TTIR, TTGIR, PTX, HLO")
    group.add_argument(
        "--no-sources", action="store_true", help="keep no text of source files in the profile: views of a line then need --source-path"
    )

    group = parser.add_argument_group("calls of runtimes")
    group.add_argument(
        "--trace",
        default="auto",
        metavar="LIST",
        help=f"record each call of these runtimes: {', '.join(BACKENDS)}, or all, or off (default: {DEFAULT})",
    )
    group.add_argument("--trace-stacks", action="store_true", help="record the stack of each traced call, however many there are")

    group = parser.add_argument_group("inside Triton kernels")
    group.add_argument(
        "--intra",
        default="",
        metavar="PASSES[:KERNELS]",
        help=f"time parts of Triton kernels: {', '.join(PRESETS)}, or a file with passes; KERNELS: a regular expression for their names",
    )
    group.add_argument("--intra-warps", default="", metavar="LIST", help="time these warps of a block, like 0,4 (default: one in four)")
    group.add_argument("--intra-launches", type=int, default=0, metavar="N", help="time at most N launches of each kernel (default: 20)")
    group.add_argument("--intra-memory", default="0", metavar="SIZE", help="GPU memory for these times (default: 256M)")

    group = parser.add_argument_group("the machine")
    add_telemetry(group)


def run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise UsageError("there is no command to record: aiflame record -- COMMAND ...")
    if options.findings and options.no_seal:
        raise UsageError("--findings reads the sealed profile: leave --no-seal out")
    if not options.last and (options.on or options.keep):
        raise UsageError("--on and --keep belong to a ring: add --last 2m")
    push = queue_of(options)
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
    place, chosen_options = place_of(options.output, command, rank, chosen), _record_options(options)
    with signals_held():
        recording = record(
            command,
            place,
            chosen_options,
            overwrite=options.force,
            seal_follows=not options.no_seal,
            wait_daemons=options.wait_daemons,
            push=push,
        )
        try:
            _sum_up(recording, time.monotonic() - began, options, push)
        except Exception as error:  # the program's status matters more
            place.tell(place.failure(error))
        return leave_as(recording.status)


def _record_options(options: argparse.Namespace) -> RecordOptions:
    return RecordOptions(
        cpu_rate=options.cpu_rate,
        wall_rate=options.wall,
        waits=options.waits,
        max_bytes=parse_size(options.max_size),
        children=not options.no_children,
        python=not options.no_python,
        cuda=not options.no_cuda,
        rocm=not options.no_rocm,
        gpu_sampling=parse_sampling(options.gpu_sampling),
        gpu_counters=parse_counters(options.gpu_counters),
        gpu_memory=options.gpu_memory,
        host_memory_every=parse_host_memory(options.host_memory, options.host_memory_every),
        meaning=not options.no_meaning,
        regions=not options.no_regions,
        triton_names=options.triton_names,
        keep_ir=options.keep_ir,
        sources=not options.no_sources,
        trace=parse_trace(options.trace),
        trace_stacks=options.trace_stacks,
        intra=parse_intra(
            options.intra, warps=options.intra_warps, launches=options.intra_launches, memory=parse_size(options.intra_memory)
        ),
        telemetry_ms=parse_telemetry(options.telemetry),
        last_ms=parse_last(options.last),
        on=",".join(options.on),
        keep=options.keep or MOST_KEPT,
    )


def _sum_up(recording: Recording, seconds: float, options: argparse.Namespace, push: str) -> None:
    """Says what was recorded, and hands it over to the process that seals it."""
    from aiflame.cli.support.recorded import hand_over, say_refusal, say_sent, show_findings, summarize

    seen = summarize(recording, seconds, quiet=options.quiet, as_json=options.json)
    if recording.place.is_gone():
        return
    sealed = options.findings
    if options.findings:
        show_findings(recording, as_json=options.json)
    elif seen.refusals and not (options.quiet or options.json or recording.living):
        sealed = say_refusal(recording, seal=not options.no_seal)
    if recording.living:
        if push:
            recording.place.tell("nothing is sent while processes go on: aiflame push sends the profile when they have ended")
    elif push or not (options.no_seal or sealed):
        handed_over = hand_over(recording, push)
        if handed_over and push and not options.quiet and recording.place.speaks:
            say_sent(recording, options.push)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of profiles from 1 to 10000")
    return int(text)
