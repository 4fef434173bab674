"""What `flame`, `top` and `export` have in common: which tree, of what, seen how."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import aiflame
from aiflame.analyze.kernel.source_text import SourceFolder
from aiflame.api import Profile
from aiflame.attribute.groupings import OF_TREES
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.transforms.filters import focus, without_idle
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import default_metric
from aiflame.cli.progress import SealingLine
from aiflame.cli.say import say
from aiflame.errors import AiflameError
from aiflame.exchange import collapsed
from aiflame.profile.background import take_failures
from aiflame.profile.door import Folder
from aiflame.profile.opening import newest
from aiflame.profile.rank_numbers import parse_ranks, write_ranks

ProfilePath = Annotated[
    Path | None, typer.Argument(metavar="PROFILE", help="The profile, or a file of collapsed stacks (default: the newest profile here).")
]
MetricName = Annotated[str, typer.Option("--metric", help=f"{', '.join(METRICS)} (default: gpu-time where kernels ran).")]
Grouping = Annotated[str, typer.Option("--by", help=f"How to group: {', '.join(OF_TREES)}.")]
Detail = Annotated[
    str,
    typer.Option(
        "--detail", help="How deep the leaves go: function, line or instruction (default: instruction for gpu-stalls, else function)."
    ),
]
Idle = Annotated[bool, typer.Option("--no-idle", help="Leave out the time in which a GPU had nothing to do.")]
Raw = Annotated[bool, typer.Option("--raw", help="Keep interpreter, import and start-up frames.")]
Focus = Annotated[str, typer.Option("--focus", metavar="REGEX", help="Only what lies under frames whose name matches.")]
SourcePath = Annotated[
    Path | None,
    typer.Option(
        "--source-path",
        metavar="DIR",
        help="Show sources that the profile does not have from this folder: each is looked up below it by the end of its path.",
    ),
]
Ranks = Annotated[str, typer.Option("--ranks", metavar="RANKS", help="Of a parallel job these ranks alone: 0,7 or 0-3 (default: all).")]
BaseRanks = Annotated[str, typer.Option("--base-ranks", metavar="RANKS", help="The same of the profile that is compared with.")]


@dataclass(frozen=True, slots=True)
class View:
    tree: Tree
    metric: str
    of: str
    """The profile's name."""

    @property
    def title(self) -> str:
        return f"{self.of}: {self.label}"

    @property
    def label(self) -> str:
        return self.tree.metric(self.metric).label


def opened(path: Path | None, ranks: str = "") -> Profile:
    _say_what_failed(path)
    line = SealingLine(path)
    try:
        profile = aiflame.open(path, line, ranks=parse_ranks(ranks) if ranks else None)
    finally:
        line.end()
    for note in profile.store.unfinished():
        say(f"aiflame: {note}", err=True)
    return profile


def _say_what_failed(path: Path | None) -> None:
    """In the background, before this command."""
    with contextlib.suppress(AiflameError, OSError):
        for line in take_failures(Folder.open(path if path is not None else newest(Path()))):
            say(f"aiflame: {line}", err=True)


def source_folder(path: Path | None) -> SourceFolder | None:
    return SourceFolder(path) if path is not None else None


def of_ranks(profile: Profile, ranks: str) -> str:
    """How a profile is called, or some ranks of it."""
    name = profile.path.name + (" (still being recorded)" if profile.store.unfinished() else "")
    if not ranks:
        return name
    numbers = parse_ranks(ranks)
    return f"{name}, rank{'s' if len(numbers) > 1 else ''} {write_ranks(numbers)}"


def view(
    path: Path | None,
    metric: str = "",
    by: str = "code",
    detail: str = "",
    raw: bool = False,
    only: str = "",
    no_idle: bool = False,
    ranks: str = "",
) -> View:
    if path is not None and path.is_file():
        tree = collapsed.read(path)
        chosen, of = tree.metrics[0].name, path.name
    else:
        profile = opened(path, ranks)
        chosen = metric or default_metric(profile.store)
        tree = profile.tree(chosen, by, detail or None)
        of = of_ranks(profile, ranks)
    if not raw:
        tree = hide_interpreter_noise(tree)
    if no_idle:
        tree = without_idle(tree)
    if only:
        tree = focus(tree, only)
        if not len(tree.frames) or not tree.total(chosen):
            raise AiflameError(f"no frame matches {only!r}: try a shorter expression")
    return View(tree, chosen, of)
