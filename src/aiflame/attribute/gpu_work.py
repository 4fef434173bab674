"""What ran on devices, and where it was launched: kernels and copies joined with launches and graph nodes."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from aiflame.attribute.context import BRINGS, CONTEXT, Meaning
from aiflame.attribute.families import COLLECTIVE, families
from aiflame.attribute.gpu_graphs import captured_stacks
from aiflame.attribute.phases import Phase
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.stacks import Tables
from aiflame.attribute.variants import with_variants
from aiflame.profile.codes import CopyKind
from aiflame.profile.kinds import Kind

COPY_NAMES = {
    CopyKind.HOST_TO_DEVICE: "[copy host→device]",
    CopyKind.DEVICE_TO_HOST: "[copy device→host]",
    CopyKind.DEVICE_TO_DEVICE: "[copy device→device]",
    CopyKind.FILL: "[fill]",
    CopyKind.MAP: "[map]",
    CopyKind.PEER: "[copy device→other device]",
}
LONGEST_NS = 1 << 50
"""No kernel runs for more than this, 13 days, unless its record is damaged."""
MOST_BYTES = 1 << 50
NO_LAUNCH = -1
"""`thread` of a site whose launch is not known."""

JOIN = ["process", "api", "correlation"]
SITE = ["process", "thread", "stack", "graph", "captured", "kind", "name", "device", "readable", "told"]
_RAN = ["process", "api", "correlation", "node", "kind", "item", "start_ns", "end_ns", "bytes"]


@dataclass(frozen=True, slots=True)
class Work:
    sites: pl.DataFrame
    """Each place that something was launched from, with what: SITE, and `took` (ns), `launches`, `bytes` of all that ran from there.
    `graph`: it ran for a graph's node, that `captured` (a stack, 0: unknown) made. `readable` and `told`: short and full name of a kernel
    that is a known specialization, else null."""
    ran: pl.DataFrame
    """`site` (row of `sites`), `launch` (row of `launches` of its process, 0: unknown), `start_ns`, `end_ns` (never before the start),
    and where meaning was asked for `step`."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """How work is to be told apart beyond where it was launched."""

    by: Prefix
    meaning: Meaning | None
    """None where no column of CONTEXT is asked for."""


def work(profile: Tables, grouped: Grouped | None = None) -> Work:
    """All that ran on devices. A kernel's launch has its correlation id; of several launches with one id the first counts.

    `sites` have the columns of `grouped.by` too; without code, they are not told apart by the code that launched."""
    items, shapes, copies = _items(profile)
    kernels = (
        profile.scan("kernels")
        .join(shapes.lazy(), on=["process", "shape"], how="left")
        .with_columns(
            pl.col("api").cast(pl.UInt32),
            pl.col("item").fill_null(0),
            kind=pl.lit(int(Kind.GPU_KERNEL), dtype=pl.UInt8),
            bytes=pl.lit(0, dtype=pl.UInt64),
        )
        .select(_RAN)
    )
    moved = (
        profile.scan("copies")
        .join(copies.lazy(), left_on=["kind", "device"], right_on=["copy", "device"], how="left")
        .with_columns(pl.col("item").fill_null(0), kind=pl.lit(int(Kind.GPU_COPY), dtype=pl.UInt8))
        .select(_RAN)
    )
    variant = pl.col("variant") if profile.has("kernel_variants") else pl.lit(0, dtype=pl.UInt32).alias("variant")
    launches = (
        profile.scan("launches").with_columns(pl.col("api").cast(pl.UInt32)).sort("id").select(*JOIN, "thread", "stack", "id", variant)
    )
    longest = pl.col("start_ns") + LONGEST_NS
    ran = (
        pl.concat([kernels, moved])
        .join(launches.unique(JOIN, keep="first", maintain_order=True), on=JOIN, how="left")
        .join(captured_stacks(profile).lazy(), on=["process", "node"], how="left", suffix="_made")
        .select(
            "process",
            pl.col("thread").cast(pl.Int64).fill_null(NO_LAUNCH),
            pl.col("stack").fill_null(0),
            pl.col("captured").fill_null(0),
            "item",
            "start_ns",
            "bytes",
            "id",
            "made",
            variant=pl.when(pl.col("node") != 0).then("variant_made").otherwise("variant"),
            graph=pl.col("node") != 0,
            end_ns=pl.max_horizontal("start_ns", pl.min_horizontal("end_ns", longest)),
        )
        .collect()
    )
    ran, specializations = with_variants(profile, ran, items)
    key = ["process", "thread", "stack", "graph", "captured", "item", "specialization"]
    more: list[str] = []
    if grouped is not None:
        ran = _told(profile, ran, items, grouped)
        more = [column for column in grouped.by.columns if column != "family"]
    key += more
    sites = (
        ran.lazy()
        .group_by(key)
        .agg(
            took=(pl.col("end_ns") - pl.col("start_ns")).sum().cast(pl.Int64),
            launches=pl.len().cast(pl.Int64),
            bytes=pl.col("bytes").clip(upper_bound=MOST_BYTES).sum().cast(pl.Int64),
        )
        .join(items.lazy(), on="item", how="left")
        .join(specializations.lazy(), on="specialization", how="left")
        .sort(SITE + more)
        .collect()
        .with_row_index("site")
    )
    launch = pl.col("id").fill_null(0).alias("launch")
    when = ["launch", "start_ns", "end_ns", *(["step"] if "step" in ran.columns else [])]
    of_site = ran.with_columns(launch).select({*key, *when}).join(sites.select(*key, "site"), on=key, how="left")
    return Work(sites.drop("site", "item", "specialization"), of_site.select("site", *when))


def _told(profile: Tables, ran: pl.DataFrame, items: pl.DataFrame, grouped: Grouped) -> pl.DataFrame:
    """With what each was of. A graph's kernels have the step and region of their replay; phase, layer and op are those of their capture."""
    if grouped.meaning is not None:
        launches, nodes = grouped.meaning.launches, grouped.meaning.nodes
        kinds = items.select(
            "item", copied=pl.col("name") == COPY_NAMES[CopyKind.HOST_TO_DEVICE], collective=_is_collective(profile, items)
        )
        of_capture = [name for name in CONTEXT if name not in ("step", "region")]
        captured = nodes.select("process", pl.col("node").alias("made"), *(pl.col(name).alias(f"{name}_made") for name in of_capture))
        phase = (
            pl.when("collective")
            .then(int(Phase.COMMUNICATION))
            .when(pl.col("copied") & pl.col(BRINGS).fill_null(False))
            .then(int(Phase.DATA))
            .otherwise(pl.coalesce("phase_made", "phase", pl.lit(int(Phase.OTHER))))
        )
        ran = (
            ran.lazy()
            .join(launches.lazy().select("process", "id", *CONTEXT, BRINGS), on=["process", "id"], how="left", maintain_order="left")
            .join(captured.lazy(), on=["process", "made"], how="left", maintain_order="left")
            .join(kinds.lazy(), on="item", how="left", maintain_order="left")
            .with_columns(
                step=pl.col("step").fill_null(-1),
                region=pl.col("region").fill_null(0),
                layer=pl.coalesce("layer_made", "layer", pl.lit(0)),
                op=pl.coalesce("op_made", "op", pl.lit(0)),
                phase=phase.cast(pl.Int32),
            )
            .collect()
        )
    if grouped.by.code:
        return ran
    thread = pl.when(pl.col("thread") >= 0).then(0).otherwise(NO_LAUNCH).cast(pl.Int64)
    nothing = [pl.lit(0, dtype=ran.schema[name]).alias(name) for name in ("stack", "captured")]
    return ran.with_columns(*nothing, thread=thread, graph=pl.lit(False))


def _is_collective(profile: Tables, items: pl.DataFrame) -> pl.Series:
    return items["name"].is_in([name for name, family in families(profile, items["name"]).items() if family == COLLECTIVE])


def _items(profile: Tables) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """What runs: distinct kernels and kinds of copies on their devices, by number; and the number of each shape and kind of copy."""
    shapes = profile.table("kernel_shapes").select("process", "name", "device", shape="id").unique(["process", "shape"], keep="first")
    copies = profile.scan("copies").select("kind", "device").unique().collect()
    names = pl.col("kind").replace_strict({int(kind): name for kind, name in COPY_NAMES.items()}, default="[copy]", return_dtype=pl.String)
    copies = copies.select("device", name=names, copy="kind")
    kernel, copy = pl.lit(int(Kind.GPU_KERNEL), dtype=pl.UInt8), pl.lit(int(Kind.GPU_COPY), dtype=pl.UInt8)
    unknown = pl.DataFrame({"name": "[unknown kernel]", "device": ""}).select("name", "device", kind=kernel)
    found = pl.concat([shapes.select("name", "device", kind=kernel), copies.select("name", "device", kind=copy)]).unique()
    items = pl.concat([unknown, found]).with_row_index("item")
    of_shapes = shapes.join(items.filter(kind=int(Kind.GPU_KERNEL)), on=["name", "device"]).select("process", "shape", "item")
    of_copies = copies.join(items.filter(kind=int(Kind.GPU_COPY)), on=["name", "device"]).select("copy", "device", "item")
    return items, of_shapes.unique(["process", "shape"]), of_copies.unique(["copy", "device"])
