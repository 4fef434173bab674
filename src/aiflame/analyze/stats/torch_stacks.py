"""Torch's `key_averages(group_by_stack_n=5)`: ops by the Python code that called them."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.stats.calls import op_frames
from aiflame.analyze.stats.sums import percent
from aiflame.analyze.stats.torch import op_calls
from aiflame.attribute.analysis import Analysis
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_packing import ID, KIND

FRAMES = 5
"""The number of Python functions in a stack, from the innermost."""


def key_averages_by_stack(profile: Analysis) -> pl.DataFrame:
    """The calls of ops of an imported trace, by name and by the Python functions around them."""
    calls = op_calls(profile) if len(op_frames(profile)) else op_calls(profile).clear()
    places = calls.select("row", "node").unique(maintain_order=True)
    texts = _callers(profile, places)
    named = calls.join(places.with_columns(stack=pl.Series(texts, dtype=pl.String)), on=["row", "node"], how="left", maintain_order="left")
    return (
        named.group_by("name", "stack", maintain_order=True)
        .agg(self_cpu_ns=pl.col("self_ns").sum(), cpu_ns=pl.col("took_ns").sum(), calls=pl.len().cast(pl.Int64))
        .with_columns(percent("self_cpu_ns", name="self_cpu_percent"))
        .sort("self_cpu_ns", "name", "stack", descending=[True, False, False])
        .select("self_cpu_percent", "self_cpu_ns", "cpu_ns", "calls", "name", "stack")
    )


def _callers(profile: Analysis, places: pl.DataFrame) -> list[str]:
    """For each node of stacks, `file(line): function` of the Python functions around it."""
    stacks = {
        (process, number): (parent, frame)
        for process, number, parent, frame in profile.table("stacks").select("process", "id", "parent", "frame").iter_rows()
    }
    codes = {
        (process, number): f"{file}({line}): {function}"
        for process, number, file, line, function in profile.table("codes")
        .select("process", "id", "filename", "first_line", "qualname")
        .iter_rows()
    }
    texts = []
    for process, place in places.iter_rows():
        node, frames = place, list[str]()
        while node and len(frames) < FRAMES:
            node, frame = stacks.get((process, node), (0, 0))
            if frame >> KIND == FrameKind.PYTHON:
                frames.append(codes.get((process, frame >> ID & 0xFFFFFFF), "[unknown]"))
        texts.append("; ".join(frames))
    return texts
