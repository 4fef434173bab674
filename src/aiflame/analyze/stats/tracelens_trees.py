"""More tables of TraceLens: ops against the roofline of their device, the tree of modules, instructions of XLA."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.limits.groups import known_limits, limits_of, rates
from aiflame.analyze.stats.sums import percent
from aiflame.analyze.stats.torch import GPU_TIME
from aiflame.analyze.stats.tracelens import NO_OP
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.kinds import Kind

_ROOFLINE = {
    "share_percent": pl.Float64, "total_ns": pl.Int64, "kernels": pl.Int64, "flops": pl.Int64, "moved_bytes": pl.Int64,
    "flops_per_byte": pl.Float64, "arithmetic_tflop_s": pl.Float64, "memory_tb_s": pl.Float64, "roofline_percent": pl.Float64,
    "bound": pl.String, "op": pl.String,
}  # fmt: skip
_MODULES = {
    "cpu_percent": pl.Float64, "cpu_ns": pl.Int64, "self_cpu_ns": pl.Int64, "device_percent": pl.Float64, "device_ns": pl.Int64,
    "self_device_ns": pl.Int64, "launches": pl.Int64, "module": pl.String, "path": pl.String,
}  # fmt: skip
_NUMBERED = r"([._]\d+|_kernel|\.clone|\.remat\d*)+$"
"""The end of the name of an instruction, or of the kernel that XLA made of it: `fusion.12`, `loop_add_fusion_3`."""


def roofline(profile: Analysis) -> pl.DataFrame:
    """The ops whose kernels have a known limit, in the steady steps: operations and bytes, their rates, and the share of the limit."""
    analysis = profile_analysis(profile)
    if not known_limits(analysis):
        return pl.DataFrame(schema=_ROOFLINE)
    rows = limits_of(analysis, ["op"]).filter(pl.col("counted") > 0)
    rate, intensity = rates()
    has_flops = pl.col("flops") > 0
    return (
        rows.with_columns(
            op=pl.when(pl.col("op") == "").then(pl.lit(NO_OP)).otherwise("op"),
            share_percent=pl.col("took") * 100.0 / pl.col("took").sum(),
            flops_per_byte=intensity,
            arithmetic_tflop_s=rate / 1e12,
            memory_tb_s=pl.col("dram") / pl.col("counted") / 1e3,
            bound=pl.when(pl.col("by_memory") * 2 >= pl.col("limit")).then(pl.lit("memory")).otherwise(pl.lit("arithmetic")),
            flops=pl.when(has_flops).then("flops"),
        )
        .rename({"took": "total_ns", "launches": "kernels", "dram": "moved_bytes", "limit_percent": "roofline_percent"})
        .select(pl.col(name).cast(kind) for name, kind in _ROOFLINE.items())
        .sort("total_ns", "op", descending=[True, False])
    )


def module_tree(profile: Analysis) -> pl.DataFrame:
    """The modules of models, each below the one that called it: time on CPUs and devices, with their modules and without."""
    there = metrics(profile)
    parts = [pl.DataFrame(schema={name: kind for name, kind in _MODULES.items() if name != "module" and not name.endswith("percent")})]
    for metric, part in (
        (next((name for name in there if name in CLOCK), None), "cpu"),
        (GPU_TIME if GPU_TIME in there else None, "device"),
    ):
        whole = tree(profile, metric, "layer") if metric is not None else None
        if whole is None or not (whole.kinds() == int(Kind.LAYER)).any():
            continue
        rows = top(whole, "layer", metric).filter(pl.col("kind") == int(Kind.LAYER))
        launches = ["launches"] if part == "device" and "launches" in rows.columns else []
        columns = {f"{part}_ns": "total", f"self_{part}_ns": "self", "path": "name"}
        named = rows.select(*launches, **{name: pl.col(own) for name, own in columns.items()})
        parts.append(named.select(pl.col(name).cast(_MODULES[name]) for name in named.columns))
    both = (
        pl.concat(parts, how="diagonal")
        .group_by("path")
        .agg(pl.when(pl.exclude("path").is_not_null().any()).then(pl.exclude("path").sum()))
    )
    callers = _callers(profile, both["path"].to_list())
    both = _with_totals_of_a_model(both, callers)
    weight = {path: (device or 0, cpu or 0) for path, device, cpu in both.select("path", "device_ns", "cpu_ns").iter_rows()}
    outermost = pl.Series([callers[path] == "" for path in both["path"].to_list()], dtype=pl.Boolean)
    shares = []
    for part in ("cpu", "device"):
        whole_ns = pl.col(f"{part}_ns").filter(outermost).sum()
        shares.append(pl.when(pl.col(f"{part}_ns").is_not_null()).then(percent(f"{part}_ns", whole_ns)).alias(f"{part}_percent"))
    return _in_order(both.with_columns(shares), callers, weight).select(list(_MODULES))


def _callers(profile: Analysis, paths: Collection[str]) -> dict[str, str]:
    """For each path that of the nearest module around it that has a row; "" for none. `layers` has none where a list of modules is never
    called. Where a program has one model, paths do not begin with its name."""
    outer = profile.table("layer_names").filter(pl.col("path") == "")["type"].unique()
    models = [name for name in outer.str.split(".").list.last().to_list() if name in paths]
    alone = models[0] if len(models) == 1 else ""
    callers = {}
    for path in paths:
        above = path.rpartition(".")[0]
        while above and above not in paths:
            above = above.rpartition(".")[0]
        callers[path] = above or (alone if path != alone else "")
    return callers


def _with_totals_of_a_model(rows: pl.DataFrame, callers: dict[str, str]) -> pl.DataFrame:
    """The rows, that of a program's only model with the sums of its modules: their paths do not begin with its name."""
    summed = ("cpu_ns", "device_ns", "launches")
    above = pl.Series("above", [callers[path] for path in rows["path"].to_list()], dtype=pl.String)
    inner = rows.with_columns(above).filter((pl.col("above") != "") & ~pl.col("path").str.starts_with(pl.col("above") + "."))
    if inner.is_empty():
        return rows
    model = pl.col("path") == inner["above"][0]
    return rows.with_columns(
        pl.when(model & pl.lit(inner[name].count() > 0)).then(pl.col(name).fill_null(0) + int(inner[name].sum() or 0)).otherwise(name)
        for name in summed
    ).with_columns(self_device_ns=pl.when(pl.col("device_ns").is_not_null()).then(pl.col("self_device_ns").fill_null(0)))


def _in_order(rows: pl.DataFrame, callers: dict[str, str], weight: dict[str, tuple[int, int]]) -> pl.DataFrame:
    """The modules as a walk through the tree, the heaviest child first, with an indented name, `module`."""
    children: dict[str, list[str]] = {}
    for path, caller in callers.items():
        children.setdefault(caller, []).append(path)
    walk: list[tuple[str, str]] = []
    waiting = [("", -1)]
    while waiting:
        path, depth = waiting.pop()
        if path:
            walk.append((path, "  " * depth + path.removeprefix(f"{callers[path]}.")))
        below = sorted(children.get(path, ()), key=lambda one: (weight[one], one))
        waiting += [(one, depth + 1) for one in below]
    named = pl.DataFrame(walk, schema={"path": pl.String, "module": pl.String}, orient="row")
    return named.join(rows, on="path", how="left", maintain_order="left")


def xla_summary(profile: Analysis) -> pl.DataFrame:
    """Kernels by the instruction of XLA that they were made of, without its number."""
    sites = profile_analysis(profile).sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL), pl.col("launches") > 0)
    named = sites.filter(pl.col("op").str.starts_with("jax::")).with_columns(instruction=pl.col("short").str.replace(_NUMBERED, ""))
    return (
        named.group_by("instruction", maintain_order=True)
        .agg(
            total_ns=pl.col("took").sum(),
            kernels=pl.col("launches").sum(),
            category=pl.col("family").sort_by("took").last(),
            ops=pl.col("op").unique().sort().str.join(", "),
        )
        .with_columns(percent("total_ns"), avg_ns=pl.col("total_ns") / pl.col("kernels"))
        .sort("total_ns", "instruction", descending=[True, False])
        .select("share_percent", "total_ns", "kernels", "avg_ns", "category", "instruction", "ops")
    )
