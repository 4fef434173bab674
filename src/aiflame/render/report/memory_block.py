"""The block `memory` of a report: the map of device memory at a few moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import polars as pl

from aiflame.analyze.memory.holders import caller
from aiflame.analyze.memory.segments import PLACE, MemoryMap, map_moments, memory_map, pins
from aiflame.analyze.places import place_text
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.memory_categories import FROM_BELOW, NAMES, block_categories
from aiflame.attribute.memory.live import OWNER
from aiflame.attribute.memory.segments import segments
from aiflame.render.blocks import Values, block
from aiflame.render.report.page import harmless

MOST_SEGMENTS, MOST_BLOCKS, MOST_PINS = 5_000, 100_000, 30
"""Of one moment. Segments with much unused memory are first."""


def has_map(profile: Analysis) -> bool:
    return not segments(profile).is_empty()


def memory_block(profile: Analysis) -> bytes:
    """The head has texts, and columns have numbers of them; those of a moment begin with its name."""
    there = set(block_categories(profile).unique().to_list())
    texts: dict[str, dict[str, int]] = {"streams": {}, "layers": {}, "lines": {}}
    categories = {NAMES[one]: at for at, one in enumerate(one for one in FROM_BELOW if int(one) in there)}
    moments: list[dict[str, object]] = []
    columns: dict[str, Values] = {}
    for moment in map_moments(profile):
        memory = memory_map(profile, moment)
        if memory is None:
            continue
        kept = _few(memory)
        owners = memory.segments.select(OWNER).unique().sort(OWNER)
        moments.append(
            {
                "name": moment.name,
                "label": moment.label[:1].upper() + moment.label[1:],
                "memories": [_sums(memory, owners, *owner) for owner in owners.rows()],
                "omitted": len(memory.segments) - len(kept.segments),
                "pins": [one for owner in owners.rows() for one in _pins(memory, owners, *owner)],
            }
        )
        columns |= {f"{moment.name}.{name}": values for name, values in _columns(kept, owners, texts, categories).items()}
    head = {"moments": moments, "categories": [*categories], **{name: [*numbers] for name, numbers in texts.items()}}
    return block(cast(Mapping[str, object], harmless(head)), columns)


def _few(memory: MemoryMap) -> MemoryMap:
    up_to = np.searchsorted(memory.segments["blocks"].cum_sum().to_numpy(), MOST_BLOCKS, side="right")
    kept = memory.segments.head(min(MOST_SEGMENTS, max(int(up_to), 1)))
    return MemoryMap(kept, memory.blocks.filter(pl.col("segment") < len(kept)).head(MOST_BLOCKS))


def _columns(memory: MemoryMap, owners: pl.DataFrame, texts: dict[str, dict[str, int]], categories: dict[str, int]) -> dict[str, Values]:
    def numbered(name: str, values: list[str]) -> pl.Series:
        own = texts[name]
        return pl.Series([own.setdefault(value, len(own)) for value in values], dtype=pl.Int64)

    rows, inside = memory.segments, memory.blocks
    owner = rows.join(owners.with_row_index("owner"), on=OWNER, how="left", maintain_order="left")["owner"]
    lines = [caller(function, place_text(file, line)) for file, line, function in inside.select(PLACE).rows()]
    return {
        "owner": owner,
        **{name: rows[name] for name in ("bytes", "used", "largest")},
        "stream": numbered("streams", rows["stream"].to_list()),
        "segment": inside["segment"],
        "offset": inside["offset"],
        "size": inside["bytes"],
        "category": inside["category"].replace_strict(categories, default=0, return_dtype=pl.Int64),
        "layer": numbered("layers", inside["layer"].fill_null("").to_list()),
        "line": numbered("lines", lines),
    }


def _name(owners: pl.DataFrame, process: int, memory: str) -> str:
    return memory if owners["process"].n_unique() == 1 else f"{memory}, process {process + 1}"


def _sums(memory: MemoryMap, owners: pl.DataFrame, process: int, name: str) -> dict[str, object]:
    own = memory.segments.filter((pl.col("process") == process) & (pl.col("memory") == name))
    sums = {column: int(own[column].sum()) for column in ("bytes", "used")}
    return {"name": _name(owners, process, name), **sums, "largest": int(own["largest"].to_numpy().max(initial=0))}


def _pins(memory: MemoryMap, owners: pl.DataFrame, process: int, name: str) -> list[dict[str, object]]:
    return [
        {
            "memory": _name(owners, process, name),
            "name": one.name,
            "category": one.category,
            "layer": one.layer,
            "bytes": one.bytes,
            "beside": one.beside,
            "share": one.share,
        }
        for one in pins(memory, process, name)[:MOST_PINS]
    ]
