"""The map of device memory at a moment: the segments of torch's caching allocator, the blocks in them, and the holes between these."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.labels import gathered
from aiflame.analyze.memory.holders import caller, with_places
from aiflame.analyze.places import place_text
from aiflame.attribute.analysis import Analysis, once_for
from aiflame.attribute.meaning.context import of_samples, used_samples
from aiflame.attribute.meaning.memory_categories import NAMES, block_categories
from aiflame.attribute.memory.blocks import HOST, blocks
from aiflame.attribute.memory.live import OWNER, live
from aiflame.attribute.memory.metrics import every_block
from aiflame.attribute.memory.moments import END, OUT_OF_MEMORY, PEAK, Moment, first_refusals
from aiflame.attribute.memory.segments import UNKNOWN, segment_of, segments, there
from aiflame.values import dataclass

PLACE = ("file", "line", "function")
_CATEGORIES = {int(category): name for category, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class MemoryMap:
    segments: pl.DataFrame
    """process, memory, at_ns, stream (in words), address, bytes; `used` by `blocks` (their number), `holes` (their number), `unused` and
    `largest` (bytes of all holes, and of the largest). The one with the most unused bytes beside blocks is first, wholly unused ones are
    last."""
    blocks: pl.DataFrame
    """segment (row of `segments`), offset, bytes, category (its name), layer, file, line, function, allocated_ns; by segment and offset"""


@dataclass(frozen=True, slots=True)
class Pin:
    """Blocks of one line that keep segments from being given back, or from being one hole."""

    name: str
    category: str
    layer: str
    bytes: int
    """Of these blocks."""
    beside: int
    """Unused bytes of the segments in which they lie."""
    share: float
    """The same, of the unused bytes of all segments that have blocks."""


def map_moments(profile: Analysis) -> list[Moment]:
    """The moments whose map is worth a look: the first request that was refused, if one was, the peak and the end."""
    refused = first_refusals(profile).filter(pl.col("memory") != HOST)
    return [Moment(name) for name in ((OUT_OF_MEMORY,) if len(refused) else ()) + (PEAK, END)]


@once_for
def memory_map(profile: Analysis, moment: Moment) -> MemoryMap | None:
    """None: no segments are known, as where the allocator's segments are expandable and were recorded."""
    if segments(profile).is_empty():
        return None
    at = live(profile, moment).select(*OWNER, "at_ns").unique().sort(OWNER)
    held = there(profile, at)
    if held.is_empty():
        return None
    inside = _blocks(profile, at, held)
    sized = held.with_row_index("segment").with_columns(pl.col("segment").cast(pl.Int64))
    sizes = inside.group_by("segment").agg(used=pl.col("bytes").sum(), blocks=pl.len().cast(pl.Int64))
    sized = sized.join(sizes, on="segment", how="left", maintain_order="left")
    sized = sized.join(_holes(sized, inside), on="segment", how="left", maintain_order="left")
    sized = sized.with_columns(pl.col("used", "blocks", "holes", "largest").fill_null(0))
    sized = sized.with_columns(unused=pl.col("bytes") - pl.col("used"))
    order = sized.sort(pl.col("blocks") == 0, -pl.col("unused"), *OWNER, "address", maintain_order=True)
    places = order.select("segment", place=pl.int_range(pl.len(), dtype=pl.Int64))
    inside = inside.join(places, on="segment").with_columns(segment="place").drop("place").sort("segment", "offset")
    return MemoryMap(_with_streams(order.drop("segment")), inside)


def _with_streams(rows: pl.DataFrame) -> pl.DataFrame:
    """`stream` in words: the file has addresses."""
    number = (pl.col("stream").rank("dense") - (pl.col("stream") == 0).any().cast(pl.UInt32)).over(OWNER)
    named = (
        pl.when(pl.col("stream") == UNKNOWN)
        .then(pl.lit(""))
        .when(pl.col("stream") == 0)
        .then(pl.lit("default stream"))
        .otherwise(pl.format("stream {}", number))
    )
    of_graphs = pl.when(pl.col("pool") != "").then(pl.format(", pool {} of graphs", "pool")).otherwise(pl.lit(""))
    return rows.with_columns(stream=named + of_graphs)


def _blocks(profile: Analysis, at: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """The blocks that lie in segments; one that overlaps the one before it begins behind that."""
    every = blocks(profile)
    lives = every.lazy().select(*OWNER, "address", "begin_ns", "end_ns", pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    lives = lives.filter(pl.col("address") > 0).join(at.lazy(), on=OWNER)
    number = lives.filter((pl.col("begin_ns") <= pl.col("at_ns")) & (pl.col("at_ns") < pl.col("end_ns"))).select("row").collect()["row"]
    rows = every[number].with_columns(number, block_categories(profile).gather(number).alias("category"))
    rows = rows.with_columns(segment=pl.Series(segment_of(rows, held))).filter(pl.col("segment") >= 0).sort("segment", "address")
    where = held.select(first="address", size="bytes").with_row_index("segment").with_columns(pl.col("segment").cast(pl.Int64))
    rows = rows.join(where, on="segment", how="left", maintain_order="left").with_columns(offset=pl.col("address") - pl.col("first"))
    end = pl.min_horizontal(pl.col("offset") + pl.max_horizontal("block_bytes", "bytes"), "size")
    rows = rows.with_columns(end=end)
    before = pl.col("end").cum_max().shift(1).over("segment").fill_null(0)
    rows = rows.with_columns(offset=pl.max_horizontal("offset", before)).with_columns(bytes=pl.col("end") - pl.col("offset"))
    rows = rows.filter(pl.col("bytes") > 0)
    clock = every_block()
    meaning = of_samples(profile, clock)
    layer = meaning.samples["layer"].gather(rows["row"])
    used_samples(profile, clock)
    paths = meaning.forests["layer"].paths()
    numbered = rows.with_columns(
        pl.Series("layer", gathered(paths, layer)), category=pl.col("category").replace_strict(_CATEGORIES, return_dtype=pl.String)
    )
    named = with_places(profile, numbered)
    return named.select("segment", "offset", "bytes", "category", "layer", *PLACE, "allocated_ns")


def _holes(held: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """segment, holes, largest: of the unused bytes before, between and behind the blocks of each segment."""
    ends = held.select("segment", offset="bytes", bytes=pl.lit(0, pl.Int64))
    marks = pl.concat([inside.select("segment", "offset", "bytes"), ends]).sort(
        "segment", "offset", "bytes", descending=[False, False, True]
    )
    before = (pl.col("offset") + pl.col("bytes")).shift(1).over("segment").fill_null(0)
    gaps = marks.select("segment", hole=pl.col("offset") - before)
    return gaps.group_by("segment").agg(holes=(pl.col("hole") > 0).sum().cast(pl.Int64), largest=pl.col("hole").max())


def pins(memory: MemoryMap, process: int, name: str) -> list[Pin]:
    """The lines whose blocks lie in segments of a process and a memory that are partly unused; the most unused bytes beside them first,
    then the smallest. Several lines may share a segment, so that their bytes add up to more."""
    own = memory.segments.with_row_index("segment").with_columns(pl.col("segment").cast(pl.Int64))
    partly = own.filter((pl.col("process") == process) & (pl.col("memory") == name) & (pl.col("unused") > 0))
    unused = int(partly.filter(pl.col("blocks") > 0)["unused"].sum())
    rows = memory.blocks.join(partly.select("segment", "unused"), on="segment")
    rows = rows.group_by(*PLACE, "segment").agg(
        pl.col("bytes").sum(), pl.col("unused").first(), pl.col("category", "layer").sort_by("bytes").last()
    )
    lines = rows.group_by(PLACE).agg(
        pl.col("bytes").sum(), beside=pl.col("unused").sum(), category=pl.col("category").mode().min(), layer=pl.col("layer").mode().min()
    )
    ordered = lines.sort(-pl.col("beside"), "bytes", *PLACE)
    return [
        Pin(
            caller(row["function"], place_text(row["file"], row["line"])),
            row["category"],
            row["layer"],
            row["bytes"],
            row["beside"],
            row["beside"] / unused,
        )
        for row in ordered.iter_rows(named=True)
    ]
