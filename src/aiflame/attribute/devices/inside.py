"""Frames inside a sampled kernel: the function that it called, source lines, instruction, stall reason, offset."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import FRAME_COLUMNS
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.resolve.device.stall_reasons import MEANINGS
from aiflame.values import dataclass

_PLACE = ["cubin", "function", "offset"]
_MNEMONIC = r"^\s*(?:@!?\w+\s+|\([^)]*\)\s*)?([\w.]+)"
"""The first word of an instruction after its predicate: `@!P0 LDG.E.128 R4, [R2.64]`, `(W&f0.0) jmpi 0x1d8`."""


@dataclass(frozen=True, slots=True)
class Level:
    """Frames of one level of a forest, and the node of each point there, 0 for none."""

    forest: Forest
    node: Ints


def kernel_names(profile: Tables) -> pl.DataFrame:
    """name (as compiled), short, full: each name once."""
    if not profile.has("kernel_names"):
        return pl.DataFrame(schema={"name": pl.String, "short": pl.String, "full": pl.String})
    return profile.table("kernel_names").select("name", "short", "full").unique("name", keep="first")


def levels(profile: Tables, points: pl.DataFrame, detail: str) -> list[Level]:
    """The frames inside kernels at `points` (`samples.Samples`), outermost first.

    Instructions of a line that have the same mnemonic share a frame; those with the same stall reason share a frame below it.
    """
    inner = [_called(profile, points)]
    if detail != "function":
        inner += _lines(profile, points)
    if detail == "instruction":
        sass = _sass(profile, points)
        mnemonic = sass.str.extract(_MNEMONIC)
        offset = pl.select(pl.format("+0x{}", points["offset"].map_elements(lambda at: f"{at:x}", return_dtype=pl.String))).to_series()
        inner.append(_level(mnemonic, Kind.GPU_INSTRUCTION))
        meanings = points["reason"].replace_strict(MEANINGS, default="", return_dtype=pl.String)
        inner.append(_level(points["reason"], Kind.GPU_STALL, full=meanings))
        inner.append(_level(offset, Kind.GPU_OFFSET, full=sass))
    return [level for level in inner if level.node.any()]


def _called(profile: Tables, points: pl.DataFrame) -> Level:
    """Frames for device functions that are not kernels."""
    names = kernel_names(profile).rename({"name": "function"})
    named = points.join(names, on="function", how="left", maintain_order="left")
    name = pl.when("called").then(pl.coalesce("short", "function"))
    return _level(named.select(name.alias("name")).to_series(), Kind.GPU_KERNEL, full=named["full"])


def _lines(profile: Tables, points: pl.DataFrame) -> list[Level]:
    """`matmul.py:41`, and for each function inlined there `dot util.py:12`. Code without a source line has line 0."""
    if not profile.has("gpu_lines"):
        return []
    places = points.select(_PLACE).unique()
    lines = (
        profile.scan("gpu_lines")
        .filter(pl.col("line") > 0)
        .join(places.lazy(), on=_PLACE, how="semi")
        .unique([*_PLACE, "depth"], keep="first")
        .join(kernel_names(profile).lazy().select(function="name", kernel="short"), on="function", how="left")
        .sort(*_PLACE, "depth")
        .with_columns(place=pl.col("file").str.split("/").list.last() + ":" + pl.col("line").cast(pl.String))
        .with_columns(own=(pl.col("depth") == 0) & (pl.col("name") == pl.coalesce("kernel", "function")))
        .select(
            *_PLACE,
            "file",
            "line",
            text=pl.when(pl.col("own") | (pl.col("name") == "")).then("place").otherwise(pl.format("{} {}", "name", "place")),
            full=pl.format("{}:{}", "file", "line"),
            level=pl.int_range(pl.len()).over(_PLACE),
        )
        .collect()
    )
    levels_of_lines = []
    for _, rows in sorted(lines.partition_by("level", as_dict=True).items()):
        at = points.join(rows, on=_PLACE, how="left", maintain_order="left")
        levels_of_lines.append(_level(at["text"], Kind.GPU_LINE, at["full"], at["file"], at["line"]))
    return levels_of_lines


def _sass(profile: Tables, points: pl.DataFrame) -> pl.Series:
    if not profile.has("gpu_instructions"):
        return pl.Series([None] * len(points), dtype=pl.String)
    places = points.select(_PLACE).unique()
    texts = profile.scan("gpu_instructions").join(places.lazy(), on=_PLACE, how="semi").unique(_PLACE, keep="first").collect()
    return points.join(texts.select(*_PLACE, "sass"), on=_PLACE, how="left", maintain_order="left")["sass"]


def _level(
    name: pl.Series, kind: Kind, full: pl.Series | None = None, file: pl.Series | None = None, line: pl.Series | None = None
) -> Level:
    """Frames with these names; none where the name is empty."""
    columns = {"name": name, "full_name": full, "file": file, "line": line}
    texts = pl.DataFrame({key: value for key, value in columns.items() if value is not None})
    missing = [pl.lit("").alias(key) for key in ("full_name", "file") if key not in texts.columns]
    rows = texts.with_columns(missing).with_columns(
        pl.col("full_name", "file").fill_null(""),
        line=pl.col("line").fill_null(0) if line is not None else pl.lit(0),
        kind=pl.lit(int(kind)),
        module=pl.lit(""),
        approximate=pl.lit(False),
    )
    rows = rows.with_columns(full_name=pl.when(pl.col("full_name") == pl.col("name")).then(pl.lit("")).otherwise("full_name"))
    rows = rows.select(pl.col(column).cast(dtype) for column, dtype in FRAME_COLUMNS.items())
    frames = rows.filter(pl.col("name").is_not_null()).unique(maintain_order=True)
    node = rows.join(frames.with_row_index("row", offset=1), on=list(FRAME_COLUMNS), how="left", maintain_order="left")["row"]
    return Level(Forest.of_frames(frames), node.fill_null(0).to_numpy().astype(np.int64))
