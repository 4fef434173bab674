"""The data of a report's page of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.analyze.ranks.comparison import Ranks, median_and_longest
from aiflame.analyze.ranks.critical_path import Path
from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.steps import StepMap, step_map
from aiflame.analyze.ranks.tables import rank_tables
from aiflame.analyze.tables.table import TableOf
from aiflame.values import dataclass

MOST_STRETCHES = 100_000
"""The most stretches of critical paths; if there are more, evenly spaced steps are kept."""


@dataclass(frozen=True, slots=True)
class ShownPath:
    path: Path
    begin_ns: int
    """Begin of the step, on the clock of the first rank."""
    work: list[tuple[int, int]]
    """rank, and how long the path follows its work; the longest first."""


@dataclass(frozen=True, slots=True)
class RankPage:
    comparison: Ranks
    tables: list[TableOf]
    steps: StepMap | None
    paths: list[ShownPath]
    """By step."""
    telling: list[tuple[str, int]]
    """Why a step is worth looking at, and its number."""
    left_out: int
    """The number of steps whose paths are not shown."""


def rank_page(partial: Partial, comparison: Ranks) -> RankPage:
    steps = median_and_longest(comparison.paths)
    kept = _kept(comparison.paths, {path.step for path in steps})
    names = ["median step", "longest step"] if len(steps) > 1 else ["the step"]
    begins = _begins(partial)
    return RankPage(
        comparison,
        rank_tables(comparison, kept),
        step_map(partial.facts, comparison.lates),
        [ShownPath(path, begins.get(path.step, 0), _work(path)) for path in kept],
        [(name, path.step) for name, path in zip(names, steps, strict=False)],
        len(comparison.paths) - len(kept),
    )


def _kept(paths: Sequence[Path], wanted: set[int]) -> list[Path]:
    stretches = sum(len(path.stretches) for path in paths)
    if stretches <= MOST_STRETCHES:
        return list(paths)
    many = max(len(paths) * MOST_STRETCHES // stretches, 1)
    even = set(np.linspace(0, len(paths) - 1, many).astype(int).tolist())
    return [path for at, path in enumerate(paths) if at in even or path.step in wanted]


def _begins(partial: Partial) -> dict[int, int]:
    """When each step begins on the first rank that begins it."""
    steps = [one.steps.select("step", "begin_ns") for one in partial.facts]
    return dict(pl.concat(steps).group_by("step").agg(pl.col("begin_ns").min()).rows()) if steps else {}


def _work(path: Path) -> list[tuple[int, int]]:
    spent: dict[int, int] = {}
    for one in path.stretches:
        if one.does == "work":
            spent[one.rank] = spent.get(one.rank, 0) + one.took_ns
    return sorted(spent.items(), key=lambda item: (-item[1], item[0]))
