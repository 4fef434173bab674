"""`aiflame annotate`: the source and instructions of one kernel side by side, with the reasons for their waits; or a source file's lines
with their CPU time."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.annotate_json import to_json
from aiflame.analyze.kernel.choice import Kernel, hottest, kernels
from aiflame.analyze.kernel.source_text import SourceTexts
from aiflame.analyze.overview.scope_line import ScopeLine, scope_line
from aiflame.analyze.scope import analysis_of, kernels_in_steps
from aiflame.analyze.source.choice import file_of
from aiflame.analyze.source.choice import to_json as source_json
from aiflame.analyze.source.lines import SourceLines, source_lines
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.trees.build import metrics
from aiflame.cli.support.arguments import add_json, add_ranks, add_source_path, add_whole_run
from aiflame.cli.support.parser import Parser, UsageError, number
from aiflame.cli.support.say import say_json
from aiflame.cli.support.view import opened, source_folder
from aiflame.errors import AiflameError
from aiflame.profile.opening import SUFFIX
from aiflame.render.terminal.annotate import LEAST_PERCENT, print_annotation
from aiflame.render.terminal.source_listing import print_source
from aiflame.render.terminal.top_table import print_scope
from aiflame.resolve.names.readable import clean

DESCRIPTION = (
    "Why is this GPU kernel slow? Shows its source and its instructions side by side, and why warps waited at each; or "
    "shows a source file with the CPU time of each line."
)
EXAMPLES = (
    "aiflame annotate train.py",
    "aiflame annotate attention",
    'aiflame annotate run.aiflame "^gemm_.*" --sass',
)

_NAMED = 5
_OF_ALL = "Launches and their time are those in these steps; the whole run has its stall samples, which come in windows, and its shapes"


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="[PROFILE] NAME",
        help="the profile (default: the newest one here), and a kernel: its name, a part of it, a regular expression; or a source file",
    )
    parser.add_argument("--sass", action="store_true", help="list instructions in the order of the code, each with its source line")
    parser.add_argument(
        "--least",
        type=number(0, 100, float),
        default=LEAST_PERCENT,
        metavar="PERCENT",
        help=f"fold instructions with less of the samples, and lines far from those with time; 0 shows all (default: {LEAST_PERCENT:g})",
    )
    parser.add_argument("--cubin", type=_crc, metavar="CRC", help="the cubin to show, where several have the kernel (default: the hottest)")
    add_whole_run(parser)
    add_source_path(parser)
    add_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    names: list[str] = options.names
    if not names:
        raise UsageError("annotate needs the name of a kernel or of a source file: aiflame top --by kernel and --by line list them")
    if len(names) > 2:
        raise UsageError(f"annotate takes [PROFILE] NAME, not {len(names)} names: put the kernel's name in quotes")
    profile = opened(Path(names[0]) if len(names) == 2 or _is_profile(names[0]) else None, options.ranks)
    if len(names) == 1 and _is_profile(names[0]):
        raise AiflameError(f"which {_offered(profile, names[0])}")
    sources = SourceTexts(profile.store, source_folder(options.source_path))
    analysis = analysis_of(profile.store, whole_run=options.whole_run)
    scope = scope_line(profile_analysis(analysis), profile.store.meta)
    every = kernels(profile.store, kernels_in_steps(analysis))
    if (choice := _source(analysis, names[-1], every, scope)) is not None:
        lines, path = choice
        if options.json:
            say_json(source_json(lines, path, sources.of(path), scope.to_json()))
        else:
            print_scope(scope, idle=False)
            print_source(lines, path, sources.of(path), whole_file=not options.least)
        return
    if not every:
        none = "no GPU kernel ran in this profile, and no file or function of that name took time"
        raise AiflameError(f"{none}: which {_offered(profile, '')}")
    answer = annotate(profile.store, names[-1], options.cubin, sources, every)
    if options.json:
        say_json(to_json(answer, scope.to_json()))
    else:
        print_scope(scope, idle=False, beside=[] if scope.whole_run else [_OF_ALL])
        print_annotation(answer, options.least, by_code=options.sass)


def _source(profile: Analysis, name: str, every: Sequence[Kernel], scope: ScopeLine) -> tuple[SourceLines, str] | None:
    """The CPU time of lines in the scope, and the file with that name: if kernels ran, only for names of files."""
    clock = next((metric for metric in metrics(profile) if metric in CLOCK), None)
    if clock is None or (every and not Path(name).suffix):
        return None
    lines = source_lines(profile, clock, steady=not scope.whole_run)
    path = file_of(lines, name)
    if path is None and not scope.whole_run and (elsewhere := file_of(source_lines(profile, clock), name)) is not None:
        raise AiflameError(f"{clean(elsewhere)} took no {lines.metric.label} in {scope.steps_text}: --whole-run has that of the whole run")
    return (lines, path) if path is not None else None


def _offered(profile: Profile, of: str) -> str:
    """The names that can be given: kernels, otherwise source files."""
    behind = f" of {of}" if of else ""
    if every := kernels(profile.store):
        return f"kernel{behind}? {hottest(every)}"
    clock = next((metric for metric in metrics(profile.store) if metric in CLOCK), None)
    paths = source_lines(profile.store, clock).files["path"].head(_NAMED).to_list() if clock is not None else []
    return f"source file{behind}? the hottest are {', '.join(clean(path) for path in paths)}" if paths else f"kernel{behind}? it has none"


def _is_profile(name: str) -> bool:
    return name.rstrip("/").endswith(SUFFIX) and Path(name).is_dir()


def _crc(text: str) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        raise ArgumentTypeError(f"{text!r} names no cubin: a cubin is named by 16 hexadecimal digits") from None
