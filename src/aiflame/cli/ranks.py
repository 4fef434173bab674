"""`aiflame ranks`: how the ranks of a parallel job spend their time, and for which ranks they wait."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from rich.progress import Progress

from aiflame.analyze.ranks import fan_out
from aiflame.analyze.ranks.comparison import ranks, to_json
from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.sources import sources
from aiflame.cli.support.arguments import add_json, add_ranks, add_rows
from aiflame.cli.support.many_files import add_memory_and_dask, memory_of
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import as_profile
from aiflame.exchange.readers.many_files import Where
from aiflame.json_text import json_text
from aiflame.profile.opening import newest
from aiflame.profile.ranks.rank_numbers import parse_ranks
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.ranks_table import print_ranks

DESCRIPTION = (
    "Which ranks of a parallel job do the others wait for, and why? Shows what each rank did, how much communication is exposed, which"
    " rank came last to collectives, and the critical path."
)
EXAMPLES = ("mpirun -n 4 aiflame record -o job.aiflame -- python train.py", "aiflame ranks job.aiflame")
_ROWS = 20


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "profiles",
        nargs="*",
        type=Path,
        metavar="[PROFILE ...]",
        help="profiles of one job: one with all ranks, or one for each rank (default: the newest one here)",
    )
    add_ranks(parser)
    add_rows(parser, _ROWS, "rows of each table")
    add_memory_and_dask(parser, "analyse")
    add_json(parser)


def run(options: Namespace) -> None:
    bound = memory_of(options)
    chosen, notes = sources([as_profile(path, Where(bound)) for path in options.profiles] or [newest(Path())])
    if options.ranks:
        wanted = parse_ranks(options.ranks)
        chosen = [source for source in chosen if source.rank in wanted]
    if not chosen:
        raise AiflameError("no rank is there to analyse: " + ("; ".join(notes) or f"--ranks {options.ranks} names no rank of this job"))
    partial = _with_progress(
        lambda progress: fan_out.on_dask(chosen, options.dask, progress) if options.dask else fan_out.here(chosen, bound, progress)
    )
    if not partial.facts:
        raise AiflameError("no rank could be analysed: " + "; ".join([*notes, *partial.notes]))
    answer = ranks(partial)
    answer.notes[:0] = notes
    if options.json:
        say_json(json_text(to_json(answer, options.rows), indent=1))
    else:
        print_ranks(answer, options.rows)


def _with_progress(work: Callable[[Callable[[float], None]], Partial]) -> Partial:
    """Runs `work` with a progress bar, which is shown only on a terminal."""
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("Ranks", total=1.0)
        return work(lambda share: shown.update(task, completed=share))
