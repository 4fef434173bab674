"""Kernels, layers, ops, steps and lines against the limits of their device: sums over the kernels of the profile's scope whose limit is
known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.scope import in_scope
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.counters.another_run import has_another_run
from aiflame.attribute.counters.metric_sums import MODELLED, OF_ANOTHER_RUN
from aiflame.attribute.limits.bounds import of_limits
from aiflame.attribute.limits.kernels import has_limits, is_modelled, kernel_limits, of_sites, waited
from aiflame.profile.schema.kinds import Kind
from aiflame.values import asdict, dataclass

SUMS = ("counted", "limit", "by_memory", "memory", "tensor", "active", "warps", "error", "estimated", "waited", "dram", "flops")
LIMITS: Mapping[str, type[pl.DataType]] = {
    "took": pl.Int64,
    "launches": pl.Int64,
    **dict.fromkeys(SUMS, pl.Int64),
    "limit_percent": pl.Float64,
    "limit_error": pl.Float64,
    "could_win": pl.Int64,
    "bound_by": pl.String,
}
"""The columns of a group: `took` of all its kernels and copies (ns), `launches`; SUMS over those with a limit (`limits.kernels.of_sites`;
`waited`: time in which the device waited for their launch), and `limits.bounds.COLUMNS`."""
NEARLY_ALL = 0.95
LIMIT_COLUMNS = ("of_limit", "could_win", "bound_by")
"""Beside other values of a group: the share of its limit, the time that could be won, and its bound."""
RATES = ("flop_rate", "intensity")
"""Where operations are modelled: operations a second, and for each byte; null for groups without any."""
_OF_SITES = ("name", "short", "kind", "family", "device", "file", "line", "function", "launches")


@dataclass(frozen=True, slots=True)
class Utilization:
    """Parts of the time of devices in the scope: in its steps, or from their first work to their last."""

    limit: float
    """All its kernels at their limits."""
    tensor: float
    """Tensor cores at their full rate."""
    memory: float
    """The device's memory at its peak bandwidth."""
    counted: float
    """The part of the kernels' time for which these are known."""
    another_run: bool = False
    """The counters are those of another run of the program (`aiflame merge`)."""
    modelled: bool = False
    """There are no counters: the work is that of a model of ops (`exchange.readers.op_work`)."""

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @property
    def text(self) -> str:
        whole = self.counted >= NEARLY_ALL
        if self.modelled:
            some = "" if whole else f" for {self.counted:.0%} of kernels' time"
            return f"Used of the device: {self.tensor:.0%} of its arithmetic, {self.memory:.0%} of its memory's bandwidth{MODELLED}{some}"
        some = "" if whole else f", by the {self.counted:.0%} of kernels' time with counters"
        other = OF_ANOTHER_RUN if self.another_run else ""
        return f"Used of the device: {self.tensor:.0%} of its tensor cores' rate, {self.memory:.0%} of its memory's bandwidth{some}{other}"


def limits_of(analysis: ProfileAnalysis, by: Sequence[str]) -> pl.DataFrame:
    """LIMITS of each group in the scope. `by`: of `phase`, `layer`, `group` (of layers alike), `op`, `model` (of the device), and the
    columns of `analysis.sites` but its sums."""
    parts = _parts(analysis.profile)
    grouped = parts.group_by(by).agg(pl.col("took", "launches", *SUMS).sum())
    whole = grouped.with_columns(pl.col("took", "launches", *SUMS).round().cast(pl.Int64)).with_columns(of_limits())
    return whole.select(*by, *LIMITS).sort("took", *by, descending=[True, *[False] * len(by)])


def beside(analysis: ProfileAnalysis, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """These rows with LIMIT_COLUMNS, where limits are known, and RATES, where they are modelled. `by`: as in `limits_of`."""
    if not known_limits(analysis):
        return rows
    more = [rate.alias(name) for name, rate in zip(RATES, rates(), strict=True)] if modelled(analysis) else []
    limits = limits_of(analysis, by).select(*by, *LIMIT_COLUMNS[1:], *more, of_limit=pl.col("limit_percent") / 100)
    return rows.join(limits, on=by, how="left", maintain_order="left").with_columns(pl.col("bound_by").fill_null(""))


def rates() -> tuple[pl.Expr, pl.Expr]:
    """RATES, of columns of `limits_of`."""
    some = pl.col("flops") > 0
    rate = pl.when(some & (pl.col("counted") > 0)).then(pl.col("flops") * 1e9 / pl.col("counted"))
    return rate, pl.when(some & (pl.col("dram") > 0)).then(pl.col("flops") / pl.col("dram"))


def modelled(analysis: ProfileAnalysis) -> bool:
    """Whether the known limits are those of a model of ops."""
    return known_limits(analysis) and is_modelled(analysis.profile)


def model() -> pl.Expr:
    """Of a device: `NVIDIA H200 [0]` → `NVIDIA H200`"""
    return pl.col("device").str.replace(r" \[\d+\]$", "")


def with_rates(answer: pl.DataFrame, by: str, analysis: ProfileAnalysis, *, alike: bool) -> pl.DataFrame:
    """The rows of `analyze.top`, by kernel, layer, op or phase, with RATES where operations are modelled."""
    keys = {"kernel": ["short", "device"], "layer": ["group" if alike else "layer"], "op": ["op"], "phase": ["phase"]}.get(by)
    if keys is None or not modelled(analysis):
        return answer
    names = dict(zip(keys, ("name", "module"), strict=False))
    of = limits_of(analysis, keys).select(*keys, *(rate.alias(name) for name, rate in zip(RATES, rates(), strict=True))).rename(names)
    return answer.join(of, on=list(names.values()), how="left", maintain_order="left")


def known_limits(analysis: ProfileAnalysis) -> bool:
    """Whether the limit of any kernel is known, in the scope or not."""
    return analysis.ran_on_devices and has_limits(analysis.profile)


def limits_of_steps(analysis: ProfileAnalysis) -> pl.DataFrame:
    """process, step, and of the kernels of each: counted, limit, tensor, memory (ns)"""
    limits, executions = kernel_limits(analysis.profile), analysis.work.executions
    process = analysis.sites["process"].gather(executions["site"])
    took = (executions["end_ns"] - executions["start_ns"]).cast(pl.Int64)
    kernels = pl.DataFrame({"process": process, "step": executions["step"].cast(pl.Int64), "counted": took})[: len(limits.has_limit)]
    times = {name: pl.Series(getattr(limits, name)) for name in ("limit", "tensor", "memory")}
    measured = kernels.with_columns(**times).filter(pl.Series(limits.has_limit), pl.col("step") >= 0)
    summed = measured.group_by("process", "step").agg(pl.col("counted", *times).sum().round().cast(pl.Int64))
    return summed.with_columns(pl.min_horizontal("limit", "counted")).sort("process", "step")


def utilization(analysis: ProfileAnalysis) -> Utilization | None:
    """None where no kernel of the scope has a known limit."""
    if not known_limits(analysis):
        return None
    steps = in_scope(analysis.profile, analysis.per_step)
    if len(steps):
        whole = int((steps["end_ns"] - steps["begin_ns"]).sum())
    else:
        whole = sum(int(device.every.end[-1] - device.every.begin[0]) for device in analysis.devices)
    parts = _parts(analysis.profile).filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    sums = {name: float(parts[name].sum()) for name in ("took", "counted", "limit", "tensor", "memory")}
    if not sums["counted"] or not whole:
        return None
    limit, tensor, memory = (min(sums[name] / whole, 1.0) for name in ("limit", "tensor", "memory"))
    return Utilization(limit, tensor, memory, sums["counted"] / max(sums["took"], 1), has_another_run(analysis.profile), modelled(analysis))


@once
def _parts(profile: Analysis) -> pl.DataFrame:
    """_OF_SITES, phase, layer, group (`layers.*.mlp`), op, model, took, SUMS: a row for each site with launches in the scope, those of
    compiled kernels for each of their parts. Launches count at the first part."""
    analysis = profile_analysis(profile)
    inside = analysis.inside
    sums = of_sites(profile, analysis.work, inside) | {"waited": waited(profile, analysis.work, inside)}
    of_site = analysis.scoped_sites.select(_OF_SITES, whole="took").with_columns(pl.Series(name, sums[name]) for name in SUMS)
    parts = analysis.scoped_shared.join(of_site.with_row_index("site").cast({"site": pl.Int64}), on="site", maintain_order="left")
    part = pl.when(pl.col("whole") > 0).then(pl.col("took") / pl.col("whole")).otherwise(0.0)
    first = pl.col("site").is_first_distinct()
    group = collapsed(pl.col("layer"))
    divided = [(pl.col(name) * part).alias(name) for name in SUMS]
    return parts.with_columns(*divided, group=group, model=model(), launches=pl.when(first).then("launches").otherwise(0)).filter(
        pl.col("whole") > 0
    )
