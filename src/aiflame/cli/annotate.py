"""`aiflame annotate`: the source and instructions of one kernel side by side, with the reasons for their waits."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path

from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.annotate_json import to_json
from aiflame.analyze.kernel.choice import hottest, kernels
from aiflame.analyze.kernel.source_text import SourceTexts
from aiflame.cli.arguments import add_json, add_ranks, add_source_path
from aiflame.cli.parser import Parser, UsageError, number
from aiflame.cli.say import say_json
from aiflame.cli.view import opened, source_folder
from aiflame.errors import AiflameError
from aiflame.profile.opening import SUFFIX
from aiflame.render.terminal.annotate import LEAST_PERCENT, print_annotation

DESCRIPTION = "Why is this GPU kernel slow? Shows its source and its instructions side by side, and why warps waited at each."
EXAMPLES = ("aiflame annotate attention", 'aiflame annotate run.aiflame "^gemm_.*" --sass')


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="[PROFILE] KERNEL",
        help="the profile (default: the newest one here), and the kernel: its name, a part of it, or a regular expression",
    )
    parser.add_argument("--sass", action="store_true", help="list instructions in the order of the code, each with its source line")
    parser.add_argument(
        "--least",
        type=number(0, 100, float),
        default=LEAST_PERCENT,
        metavar="PERCENT",
        help=f"fold instructions that have less of the samples; 0 shows all (default: {LEAST_PERCENT:g})",
    )
    parser.add_argument("--cubin", type=_crc, metavar="CRC", help="which of the cubins that have the kernel (default: the hottest)")
    add_source_path(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    names: list[str] = options.names
    if not names:
        raise UsageError("annotate needs the name of a kernel: aiflame annotate KERNEL; aiflame top --by kernel lists them")
    if len(names) > 2:
        raise UsageError(f"annotate takes [PROFILE] KERNEL, not {len(names)} names: put the kernel's name in quotes")
    profile = opened(Path(names[0]) if len(names) == 2 or _is_profile(names[0]) else None, options.ranks)
    if len(names) == 1 and _is_profile(names[0]):
        raise AiflameError(f"which kernel of {names[0]}? {hottest(kernels(profile.store))}")
    sources = SourceTexts(profile.store, source_folder(options.source_path))
    answer = annotate(profile.store, names[-1], options.cubin, sources)
    if options.json:
        say_json(to_json(answer))
    else:
        print_annotation(answer, options.least, by_code=options.sass)


def _is_profile(name: str) -> bool:
    return name.rstrip("/").endswith(SUFFIX) and Path(name).is_dir()


def _crc(text: str) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        raise ArgumentTypeError(f"{text!r} names no cubin: a cubin is named by 16 hexadecimal digits") from None
