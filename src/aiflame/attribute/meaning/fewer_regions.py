"""Merges regions for a page: a program that names each of its steps (`Step.1`, `Step.2` …) has as many region paths as launches, and a page
cannot hold a site for each place in each of them."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import FRAME_COLUMNS
from aiflame.values import dataclass

MOST_PLACES = 60_000
"""The most pairs of a stack and a region."""
NUMBERS = r"\d+"
OF_NUMBERS = (
    "regions whose names differ only in numbers are shown as one (Step.*), since there are too many: group by step to separate them"
)
OUTERMOST = "only the outermost regions are shown: there are too many"
NONE = "regions are not shown: there are too many"


@dataclass(frozen=True, slots=True)
class FewerRegions:
    forest: Forest
    place: Ints
    """The new node of each old node of the forest."""
    notes: tuple[str, ...]

    def of(self, items: pl.DataFrame) -> pl.DataFrame:
        """The items, with their regions as nodes of this forest."""
        if not self.notes:
            return items
        return items.with_columns(region=pl.Series(self.place[items["region"].to_numpy()].astype(np.int32)))


def fewer_regions(items: pl.DataFrame, forest: Forest, most: int = MOST_PLACES) -> FewerRegions:
    """`items`: process, stack, region (node of the forest). Keeps all regions if they are few."""
    chosen = FewerRegions(forest, np.arange(len(forest.parent)), ())
    if len(forest.parent) <= 2 or len(items) <= most:
        return chosen
    stack = items["process"].cast(pl.Int64).to_numpy() << 32 | items["stack"].cast(pl.Int64).to_numpy()
    region = items["region"].to_numpy()
    stacks = nodes.distinct(stack)
    place = np.searchsorted(stacks, stack)
    for make, note in ((_without_numbers, OF_NUMBERS), (_outermost, OUTERMOST), (_none, NONE)):
        if len(nodes.distinct(place * len(chosen.forest.parent) + chosen.place[region])) <= max(most, 2 * len(stacks)):
            break
        fewer, to = make(chosen.forest)
        chosen = FewerRegions(fewer, to[chosen.place].astype(np.int64), (note,))
    return chosen


def _without_numbers(forest: Forest) -> tuple[Forest, Ints]:
    frames = forest.frames.with_columns(pl.col("name", "full_name").str.replace_all(NUMBERS, "*"))
    columns = list(FRAME_COLUMNS)
    distinct = frames.select(columns).unique(maintain_order=True)
    row = frames.join(distinct.with_row_index("row"), on=columns, how="left", maintain_order="left")["row"].to_numpy()
    parent, frame, place = nodes.merge_siblings(forest.parent, row[forest.frame].astype(np.uint32))
    return Forest(distinct, parent, frame), place.astype(np.int64)


def _outermost(forest: Forest) -> tuple[Forest, Ints]:
    outermost = forest.parent <= 0
    number = np.cumsum(outermost) - 1
    return Forest(forest.frames, forest.parent[outermost], forest.frame[outermost]), number[nodes.nearest(forest.parent, outermost)]


def _none(forest: Forest) -> tuple[Forest, Ints]:
    return Forest(forest.frames, forest.parent[:1], forest.frame[:1]), np.zeros(len(forest.parent), dtype=np.int64)
