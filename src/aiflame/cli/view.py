"""What `flame`, `top` and `export` have in common: which tree, of what, seen how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import aiflame
from aiflame.attribute.build import GROUPINGS, default_metric
from aiflame.attribute.transforms import focus, hide_interpreter_noise, without_idle
from aiflame.attribute.tree import METRICS, Tree
from aiflame.errors import AiflameError
from aiflame.exchange import collapsed

ProfilePath = Annotated[
    Path | None, typer.Argument(metavar="PROFILE", help="The profile, or a file of collapsed stacks (default: the newest profile here).")
]
MetricName = Annotated[str, typer.Option("--metric", help=f"{', '.join(METRICS)} (default: gpu-time where kernels ran).")]
Grouping = Annotated[str, typer.Option("--by", help=f"How to group: {', '.join(GROUPINGS)}.")]
Detail = Annotated[
    str,
    typer.Option(
        "--detail", help="How deep the leaves go: function, line or instruction (default: instruction for gpu-stalls, else function)."
    ),
]
Idle = Annotated[bool, typer.Option("--no-idle", help="Leave out the time in which a GPU had nothing to do.")]
Raw = Annotated[bool, typer.Option("--raw", help="Keep interpreter, import and start-up frames.")]
Focus = Annotated[str, typer.Option("--focus", metavar="REGEX", help="Only what lies under frames whose name matches.")]


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


def view(
    path: Path | None, metric: str = "", by: str = "code", detail: str = "", raw: bool = False, only: str = "", no_idle: bool = False
) -> View:
    if path is not None and path.is_file():
        tree = collapsed.read(path)
        chosen, of = tree.metrics[0].name, path.name
    else:
        opened = aiflame.open(path)
        chosen = metric or default_metric(opened.store)
        tree = opened.tree(chosen, by, detail or None)
        of = opened.path.name
    if not raw:
        tree = hide_interpreter_noise(tree)
    if no_idle:
        tree = without_idle(tree)
    if only:
        tree = focus(tree, only)
        if not len(tree.frames) or not tree.total(chosen):
            raise AiflameError(f"no frame matches {only!r}: try a shorter expression")
    return View(tree, chosen, of)
