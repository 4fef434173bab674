"""The report's page of limits: kernels, layers and ops with their shares of the limits, and the peaks of their devices."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.limits.groups import Utilization, known_limits, limits_of, model, rates, utilization
from aiflame.attribute.counters.intervals import has_counts
from aiflame.attribute.limits.kernels import is_modelled
from aiflame.attribute.limits.peaks import Peaks, peaks
from aiflame.profile.folder.meta import Imported
from aiflame.profile.schema.kinds import Kind
from aiflame.values import asdict, dataclass

MOST = 400
"""Rows of each kind: those that took longest."""
ROW = {
    "name": pl.String,
    "short": pl.String,
    "device": pl.String,
    "place": pl.String,
    "took": pl.Int64,
    "launches": pl.Int64,
    "counted": pl.Int64,
    "dram": pl.Int64,
    "memory": pl.Float64,
    "tensor": pl.Float64,
    "limit": pl.Float64,
    "error": pl.Float64,
    "could_win": pl.Int64,
    "bound_by": pl.String,
    "flop_rate": pl.Float64,
    "intensity": pl.Float64,
}
"""memory, tensor, limit: shares of the time at the peak of the memory, at the full rate of tensor cores, at the limit; error: of limit;
flop_rate, intensity: operations a second, and for each byte, where they are modelled."""


@dataclass(frozen=True, slots=True)
class LimitsPage:
    why: str
    """Why nothing is known; "" where something is."""
    devices: Mapping[str, Peaks]
    """By name, without the numbers of devices; the one with most GPU time first."""
    used: Utilization | None
    rows: Mapping[str, pl.DataFrame]
    """ROW: of `kernels`, `layers`, `ops`"""

    def to_json(self) -> dict[str, object]:
        return {
            "why": self.why,
            "devices": [{"name": name, **asdict(of)} for name, of in self.devices.items()],
            "used": asdict(self.used) if self.used is not None else None,
            "rows": {name: rows.to_dicts() for name, rows in self.rows.items()},
        }


def limits_page(analysis: ProfileAnalysis, imported: Imported | None = None) -> LimitsPage:
    """`imported`: where the profile comes from, if it is no recording."""
    kernels = analysis.sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    order = kernels.group_by(model=model()).agg(pl.col("took").sum()).sort("took", "model", descending=[True, False])["model"]
    devices = {name: of for name in order if (of := peaks(name)) is not None}
    used = utilization(analysis)
    if used is None:
        return LimitsPage(_why(analysis, order, devices, imported), devices, None, {})
    sites = limits_of(analysis, ["name", "short", "kind", "model"]).filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    of_layers = limits_of(analysis, ["layer", "model"]).filter(pl.col("layer") != "")
    of_ops = limits_of(analysis, ["op", "model"]).filter(pl.col("op") != "")
    rows = {
        "kernels": _rows(sites.join(_places(analysis), on=["name", "short"], how="left"), "short"),
        "layers": _rows(of_layers, "layer"),
        "ops": _rows(of_ops, "op"),
    }
    return LimitsPage("", devices, used, rows)


def _rows(limits: pl.DataFrame, name: str) -> pl.DataFrame:
    counted = pl.col("counted")
    as_row = limits.filter(counted > 0).with_columns(
        name=pl.col("name") if "name" in limits.columns else pl.col(name),
        short=pl.col(name),
        device=pl.col("model"),
        place=pl.col("place").fill_null("") if "place" in limits.columns else pl.lit(""),
        memory=pl.col("memory") / counted,
        tensor=pl.col("tensor") / counted,
        limit=pl.col("limit_percent") / 100,
        error=pl.col("limit_error") / 100,
        flop_rate=rates()[0],
        intensity=rates()[1],
    )
    return as_row.select(pl.col(column).cast(kind) for column, kind in ROW.items()).head(MOST)


def _places(analysis: ProfileAnalysis) -> pl.DataFrame:
    """name, short, place: the line that launches most of each kernel."""
    placed = analysis.scoped_sites.filter(pl.col("file") != "").sort("took", "file", "line", descending=[True, False, False])
    first = placed.unique(["name", "short"], keep="first", maintain_order=True)
    return first.select("name", "short", place=pl.format("{}:{}", "file", "line"))


def _why(analysis: ProfileAnalysis, names: pl.Series, devices: Mapping[str, Peaks], imported: Imported | None) -> str:
    has_work = is_modelled(analysis.profile)
    if imported is not None and not has_counts(analysis.profile) and not has_work:
        shapes = ", and no shapes of ops: profile with record_shapes=True" if imported.format.startswith("torch") else ""
        return f"This file of {imported.format} has no counters of the GPU{shapes}."
    if not has_counts(analysis.profile) and not has_work:
        return "No hardware counters of the GPU were recorded: record with --gpu-counters auto (aiflame doctor lists its requirements)."
    if not devices:
        return f"The vendor's peaks of {', '.join(filter(None, names)) or 'this device'} are not known: docs/limits.md lists the devices."
    if has_work:
        return "No kernel of these was launched by an op of torch whose work is modelled: docs/limits.md lists the ops."
    if known_limits(analysis):
        return "Counters cover no kernel of these steps: the whole run has some."
    return "The recorded counters cover no kernel, or lack those of the memory and of tensor cores: docs/limits.md says which are needed."
