"""The tree that `flame`, `top` and `export` show, built from their common arguments."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from pathlib import Path

import aiflame
from aiflame.analyze.kernel.source_text import SourceFolder
from aiflame.analyze.overview.scoped_tree import ScopedTree, scoped_tree
from aiflame.api import Profile
from aiflame.attribute.memory.metrics import AT_A_MOMENT, base_name
from aiflame.attribute.transforms.filters import focus, without_idle
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.transforms.own_code import own_code
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import default_metric
from aiflame.cli.support.arguments import known_metric, metric_first
from aiflame.cli.support.progress import ProgressLine
from aiflame.cli.support.say import say
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.opening import newest
from aiflame.profile.ranks.rank_numbers import parse_ranks, write_ranks
from aiflame.profile.sealing.background import take_failures
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class View:
    tree: Tree
    metric: str
    of: str
    """The profile's name."""
    scoped: ScopedTree | None = None
    """None: it shows the whole profile, or no profile at all."""

    @property
    def title(self) -> str:
        return f"{self.of}: {self.label}{self.steps}"

    @property
    def steps(self) -> str:
        """The end of a title; "" for a whole run."""
        return f" in {self.scoped.line.steps_text}" if self.scoped is not None and not self.scoped.line.whole_run else ""

    @property
    def label(self) -> str:
        return self.tree.metric(self.metric).label


def opened(path: Path | None, ranks: str = "") -> Profile:
    _print_failures(path)
    line = ProgressLine("importing" if path is not None and path.is_file() else "sealing", path)
    try:
        profile = aiflame.open(path, line, ranks=parse_ranks(ranks) if ranks else None)
    finally:
        line.end()
    for note in profile.store.unfinished():
        say(f"aiflame: {note}", err=True)
    return profile


def _print_failures(path: Path | None) -> None:
    """Prints failures of the background sealer, which ran before this command."""
    with contextlib.suppress(AiflameError, OSError):
        for line in take_failures(Folder.open(path if path is not None else newest(Path()))):
            say(f"aiflame: {line}", err=True)


def source_folder(path: Path | None) -> SourceFolder | None:
    return SourceFolder(path) if path is not None else None


def of_ranks(profile: Profile, ranks: str) -> str:
    """The name of a profile, with the selected ranks."""
    name = profile.path.name + (" (still being recorded)" if profile.store.unfinished() else "")
    if not ranks:
        return name
    numbers = parse_ranks(ranks)
    return f"{name}, rank{'s' if len(numbers) > 1 else ''} {write_ranks(numbers)}"


def selected(options: Namespace, by: str) -> View:
    """The view that the common arguments (`aiflame.cli.support.arguments`) describe."""
    with metric_first(options):
        return view(
            options.profile,
            options.metric or "",
            by,
            options.detail or "",
            raw=options.raw,
            only=options.focus,
            my_code=options.my_code,
            no_idle=options.no_idle,
            ranks=options.ranks,
            command=options.asked_by,
            at=options.at,
        )


def scoped_view(options: Namespace, by: str, *, keep_idle: bool = False) -> View:
    """The view of `selected`, for the profile's scope (`analyze.scope`), and without idle time. `keep_idle`: keeps it in a whole run; steps
    have none of their own."""
    with metric_first(options):
        profile = opened(options.profile, options.ranks)
    metric = known_metric(profile.store, options.metric or "", options.asked_by, options.at) or default_metric(profile.store)
    keep_idle &= not options.no_idle
    whole_run = options.whole_run or base_name(metric) in AT_A_MOMENT
    scoped = scoped_tree(profile.store, metric, by, options.detail or None, whole_run=whole_run, keep_idle=keep_idle)
    shown = folded(scoped.tree, raw=options.raw, my_code=options.my_code)
    elsewhere = "" if scoped.line.whole_run else ", or --whole-run: only steps were searched"
    return View(_focused(shown, options.focus, metric, elsewhere), metric, of_ranks(profile, options.ranks), scoped)


def view(
    path: Path | None,
    metric: str = "",
    by: str = "code",
    detail: str = "",
    raw: bool = False,
    only: str = "",
    my_code: bool = False,
    no_idle: bool = False,
    ranks: str = "",
    command: str = "",
    at: str = "",
) -> View:
    """`command`: the one that a person gave, for messages."""
    profile = opened(path, ranks)
    chosen = known_metric(profile.store, metric, command, at) or default_metric(profile.store)
    shown = folded(profile.tree(chosen, by, detail or None), raw=raw, my_code=my_code)
    if no_idle:
        shown = without_idle(shown)
    return View(_focused(shown, only, chosen), chosen, of_ranks(profile, ranks))


def folded(whole: Tree, *, raw: bool, my_code: bool) -> Tree:
    shown = whole if raw else hide_interpreter_noise(whole)
    return own_code(shown) if my_code else shown


def _focused(whole: Tree, only: str, metric: str, elsewhere: str = "") -> Tree:
    if not only:
        return whole
    focused = focus(whole, only)
    if not len(focused.frames) or not focused.total(metric):
        raise AiflameError(f"no frame matches {only!r}: try a shorter expression{elsewhere}")
    return focused
