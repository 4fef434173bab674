"""The blocks `facts.device`, `facts.cpu`, `facts.wall`, `facts.own-0` … of a report: tables of sites (`attribute/sites/table.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import polars as pl

from aiflame.attribute.counters.names import COUNTED
from aiflame.attribute.memory.metrics import AT_A_MOMENT, base_name
from aiflame.attribute.metrics import OF_GPU
from aiflame.attribute.sites.cpu import OWN_DOMAIN, cpu_sites
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.sites.table import CONTEXTS, Grouping, SiteTable
from aiflame.attribute.stacks.own_metrics import own_metrics
from aiflame.attribute.transforms.own_code import packages
from aiflame.attribute.tree import CPU_TIME, ENERGY, WALL_TIME
from aiflame.attribute.trees.build import metrics
from aiflame.profile.tables.interface import Tables
from aiflame.render.blocks import Values, block
from aiflame.render.frame_columns import IN_ORDER, frame_columns, kind_labels


def facts_makers(profile: Tables) -> dict[str, Callable[[], bytes]]:
    """For each domain that the profile has values of (`device`, `cpu`, `wall`, `own-0` …), a function that makes its block."""
    there = set(metrics(profile))

    makers: dict[str, tuple[bool, Callable[[], bytes]]] = {
        "device": (bool(there & (OF_GPU - {ENERGY.name, *COUNTED})), lambda: facts_block(device_sites(profile))),
        "cpu": (CPU_TIME.name in there, lambda: facts_block(cpu_sites(profile, CPU_TIME.name))),
        "wall": (WALL_TIME.name in there, lambda: facts_block(cpu_sites(profile, WALL_TIME.name))),
    }
    own = {f"{OWN_DOMAIN}{number}": partial(_own_block, profile, name) for number, name in enumerate(own_metrics(profile))}
    return {**{domain: make for domain, (has, make) in makers.items() if has}, **own}


def _own_block(profile: Tables, metric: str) -> bytes:
    return facts_block(cpu_sites(profile, metric))


def facts_block(facts: SiteTable) -> bytes:
    """One domain's block."""
    columns, in_order = _columns(facts)
    return block(_head(facts), columns, frozenset(in_order))


def _packages(facts: SiteTable) -> dict[str, Values]:
    """For each frame the package of its code, as a row of `package`; row 0 is the program's own code."""
    names = packages(facts.frames)
    distinct = pl.concat([pl.Series("package", [""]), names.filter(names != "").unique().sort()])
    return {"package": distinct, "frame.package": names.replace_strict(distinct, range(len(distinct)), return_dtype=pl.Int64).to_numpy()}


def _head(facts: SiteTable) -> Mapping[str, object]:
    return {
        "metrics": [{"name": one.name, "unit": one.unit, "label": one.label} for one in facts.metrics],
        "moments": dict(facts.moments_of),
        "segments": [name for name in facts.segments if name != "inside"],
        "contexts": [name for name in CONTEXTS if name in facts.segments],
        "groupings": [{"name": one.name, "label": one.label, "segments": one.segments} for one in _groupings(facts)],
        "bins": {"origin_ns": facts.bins.origin_ns, "bin_ns": facts.bins.bin_ns, "count": facts.bins.count},
        "whole_run": any(base_name(one.name) in AT_A_MOMENT for one in facts.metrics),  # parameters are older than any step
        "slots": facts.slots,
        "window_ns": facts.window_ns,
        "period_log2": facts.period_log2,
        "kinds": kind_labels(facts.frames["kind"][1:]),
        "notes": facts.notes,
    }


def _groupings(facts: SiteTable) -> list[Grouping]:
    """The groupings of the facts; if there are steps, also the grouping by layer with steps around it. Slots have the part of each step in
    a site, so steps need no segment."""
    groupings = list(facts.groupings)
    layer = next((one for one in groupings if one.name == "layer"), None)
    if len(facts.steps) and layer is not None:
        at = layer.segments.index("phase")
        groupings.append(Grouping("step", "Step", (*layer.segments[:at], "step", *layer.segments[at:])))
    return groupings


def _columns(facts: SiteTable) -> tuple[dict[str, Values], list[str]]:
    """The columns, and those whose neighbours differ little."""
    columns = {**frame_columns(facts.frames), **_packages(facts)}
    in_order = [*IN_ORDER, "frame.package"]
    for name, segment in facts.segments.items():
        columns[f"{name}.parent"], columns[f"{name}.frame"] = segment.parent, segment.frame
        in_order.append(f"{name}.parent")
    tables = {
        "site": facts.sites,
        "leaf": facts.leaves,
        "moment": facts.moments,
        "step": facts.steps,
        "slot": facts.slot_values,
        "steady": facts.steady,
    }
    for table, rows in tables.items():
        for name in rows.columns:
            columns[f"{table}.{name}"] = rows[name].to_numpy()
    in_order += [
        f"site.{name}" for name in ("process", "code", "kernel", "phase", "layer", "op", "region", "family", "category", "group", "first")
    ]
    in_order += [
        "leaf.site",
        "leaf.inside",
        "moment.bin",
        "moment.group",
        "step.number",
        "step.begin",
        "step.end",
        "slot.step",
        "slot.slot",
        "slot.group",
        "steady.group",
    ]
    return columns, in_order
