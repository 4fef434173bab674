"""Allocations that failed for lack of memory: the line that asked, and the line and category that held the most then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.memory.holders import caller, holders, with_places
from aiflame.analyze.memory.segments import Pin, memory_map, pins
from aiflame.analyze.places import place_text
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.memory_categories import NAMES, Category, block_categories
from aiflame.attribute.memory.blocks import HOST, BlockKind, blocks
from aiflame.attribute.memory.live import OWNER, live
from aiflame.attribute.memory.moments import OUT_OF_MEMORY, Moment, first_refusals
from aiflame.values import dataclass

LEAST_PART = 0.1
"""Of the live bytes: a smaller category is not named."""
_MOST = 1 << 50
"""More bytes are damaged."""


@dataclass(frozen=True, slots=True)
class Held:
    """The most bytes of one line, or of one category."""

    name: str
    """`forward() (model.py:20)`, or the category."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """An allocation of a process that failed in a memory (`first_refusals`)."""

    memory: str
    function: str
    place: str
    asked: int
    """0: not known."""
    free: int
    """0: not known."""
    unused: int
    """Bytes that torch's allocator held, in pieces that it could not use for this."""
    hole: int
    """The largest of these pieces; 0: not known."""
    pin: Pin | None
    """The line beside whose blocks most of them lie."""
    live: int
    line: Held | None
    category: Held | None

    @property
    def sentence(self) -> str:
        name = "the host" if self.memory == HOST else self.memory
        asked = amount(self.asked, "bytes") if self.asked else "more memory"
        facts = [f"{amount(self.free, 'bytes')} were free"] if self.free else []
        facts += [self._pieces] if self.unused else []
        facts += [f"{amount(self.live, 'bytes')} were live"]
        text = f"{name} had no {asked} for {caller(self.function, self.place)}: {', and '.join(facts)}"
        if self.line:
            text += f", {self.line.bytes / self.live:.0%} of them from {self.line.name}"
        return f"{text}, and {self.category.bytes / self.live:.0%} are {self.category.name}" if self.category else text

    @property
    def _pieces(self) -> str:
        """Torch has given back all segments that no block kept before it refuses."""
        text = f"torch's allocator held {amount(self.unused, 'bytes')} in pieces that "
        if not self.hole:
            return f"{text}were too small"
        fits = self.asked and self.hole >= self.asked
        text += f"{'it keeps for another stream or pool' if fits else 'were too small'} (the largest: {amount(self.hole, 'bytes')})"
        if not self.pin:
            return text
        of_layer = f" of {self.pin.layer}" if self.pin.layer else ""
        use = f", {self.pin.category}" if self.pin.category != NAMES[Category.OTHER] else ""
        return f"{text}, {self.pin.share:.0%} of them beside {amount(self.pin.bytes, 'bytes')} from {self.pin.name}{of_layer}{use}"


def refusals(profile: Analysis) -> Iterator[Refusal]:
    """The earliest first."""
    first = first_refusals(profile)
    if first.is_empty():
        return
    held, categories = holders(profile, Moment(OUT_OF_MEMORY)), _categories(profile)
    segments = memory_map(profile, Moment(OUT_OF_MEMORY))
    unused = live(profile, Moment(OUT_OF_MEMORY)).filter(pl.col("kind") == int(BlockKind.UNUSED))
    for row in with_places(profile, first).iter_rows(named=True):
        own = (pl.col("process") == row["process"]) & (pl.col("memory") == row["memory"])
        pinned = pins(segments, row["process"], row["memory"]) if segments else []
        lines, uses = held.filter(own), categories.filter(own)
        live_bytes = int(lines["bytes"].sum())
        most = [Held(caller(one["function"], place_text(one["file"], one["line"])), one["bytes"]) for one in lines.head(1).to_dicts()]
        named = uses.filter((pl.col("category") != int(Category.OTHER)) & (pl.col("bytes") >= LEAST_PART * live_bytes))
        use = [Held(NAMES[Category(one["category"])], one["bytes"]) for one in named.head(1).to_dicts()]
        yield Refusal(
            row["memory"],
            row["function"],
            place_text(row["file"], row["line"]),
            min(row["bytes"] or _asked_there(profile, row), _MOST),
            min(row["free_bytes"], _MOST),
            int(unused.filter(own)["bytes"].sum()) or (int(segments.segments.filter(own)["unused"].sum()) if segments else 0),
            min(int(segments.segments.filter(own)["largest"].to_numpy().max(initial=0)), _MOST) if segments else 0,
            next(iter(pinned), None),
            live_bytes,
            next(iter(most), None) if live_bytes else None,
            next(iter(use), None) if live_bytes else None,
        )


def _asked_there(profile: Analysis, exception: dict[str, Any]) -> int:
    """The bytes of the last allocation that failed at the line where this exception, which does not name them, was raised; 0: none did."""
    earlier = profile.table("memory_refusals").filter(
        (pl.col("process") == exception["process"]) & (pl.col("memory") == exception["memory"]) & (pl.col("time_ns") < exception["time_ns"])
    )
    there = [pl.col(name) == exception[name] for name in ("function", "file", "line")]
    asked = with_places(profile, earlier).filter(*there).sort("time_ns")["bytes"].to_list()
    return int(asked[-1]) if asked else 0


def _categories(profile: Analysis) -> pl.DataFrame:
    """process, memory, category, bytes: the live bytes of each category, the most first."""
    at = live(profile, Moment(OUT_OF_MEMORY)).select(*OWNER, "at_ns").unique()
    rows = blocks(profile).select(*OWNER, "begin_ns", "end_ns", "bytes", category=block_categories(profile)).join(at, on=OWNER)
    there = rows.filter((pl.col("begin_ns") <= pl.col("at_ns")) & (pl.col("at_ns") < pl.col("end_ns")))
    return there.group_by(*OWNER, "category").agg(pl.col("bytes").sum()).sort(*OWNER, -pl.col("bytes"), "category")
