"""The tree of a profile's scope, with the line that describes the scope."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.overview.scope_line import ScopeLine, scope_line
from aiflame.analyze.scope import analysis_of
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.tree import GPU_TIME, Kind, Tree
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class ScopedTree:
    tree: Tree
    """With every frame as recorded. Without idle time if the scope is steps, or if it was not asked for; `line` says how much there is."""
    line: ScopeLine
    analysis: ProfileAnalysis
    idle: tuple[tuple[str, int], ...] = ()
    """Frames of idle time in the whole run, with their values, for a metric other than time."""


def scoped_tree(
    profile: OpenedProfile, metric: str, by: str, detail: str | None = None, *, whole_run: bool = False, keep_idle: bool = False
) -> ScopedTree:
    """Builds a tree as `trees.build.tree` does, for the scope, or with `whole_run` for the whole run."""
    analysis = analysis_of(profile, whole_run=whole_run)
    shared = profile_analysis(analysis)
    line = scope_line(shared, profile.meta)
    whole = tree(analysis, metric, by, detail, steady=not line.whole_run)
    idle = whole.kinds() == Kind.GPU_IDLE
    names = whole.frames["name"].gather(whole.frame[idle])
    values = pl.DataFrame({"name": names, "value": whole.values[metric][idle]}).group_by("name").agg(pl.col("value").sum()).sort("name")
    return ScopedTree(whole if keep_idle else without_idle(whole), line, shared, tuple(values.rows()) if metric != GPU_TIME.name else ())
