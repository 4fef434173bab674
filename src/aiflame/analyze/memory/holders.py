"""The lines and functions that hold the memory of a moment: those that allocated it."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.places import places, short_place
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.blocks import BlockKind
from aiflame.attribute.memory.live import live
from aiflame.attribute.memory.moments import Moment
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.waiting import NO_STACK


def with_places(profile: Analysis, rows: pl.DataFrame) -> pl.DataFrame:
    """Blocks with the line of Python that allocated each, as file, line, function; without one, file is "" and function the innermost
    one. `importing`: an import of that line's allocated it."""
    process, stack = (rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack"))
    own, trie = places(profile), functions(profile)
    at = own.rows[own.of_stacks(process, stack)].select("file", "line", "function")
    innermost = trie.frames["name"].gather(trie.frame[trie.of_stacks(process, stack)])
    inside = pl.when(pl.Series(stack > 0)).then(innermost).otherwise(pl.lit(NO_STACK.name))
    named = at.with_columns(function=pl.when(pl.col("file") == "").then(inside).otherwise("function"))
    return rows.hstack(named.with_columns(importing=pl.Series(own.importing(process, stack))))


def holders(profile: Analysis, moment: Moment) -> pl.DataFrame:
    """process, memory, file, line, function, importing, bytes: the most bytes first; without the unused memory of pools, and without
    memory that no call took."""
    of_nobody = pl.col("kind").is_in([int(BlockKind.UNUSED), int(BlockKind.UNCOUNTED)])
    held = with_places(profile, live(profile, moment).filter(~of_nobody))
    keys = ["process", "memory", "file", "line", "function", "importing"]
    summed = held.group_by(keys).agg(pl.col("bytes").sum(), pl.col("at_ns").first())
    return summed.sort("process", "memory", -pl.col("bytes"), "file", "line", "function")


def caller(function: str, place: str) -> str:
    """`forward() (model.py:20)`; a function of C++ has its arguments already, and `[no stack]` is none."""
    called = function if function.startswith("[") or function.endswith(")") else f"{function}()"
    return f"{called} ({short_place(place)})" if place else called
