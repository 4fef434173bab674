"""A recorded window as rows of a store: for each stack of code its values, with thread, phase, layer and op."""

from __future__ import annotations

import polars as pl

from aiflame.always.facts import Facts
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CALL_LINE
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.tree import OF_LIMITS
from aiflame.attribute.trees.build import metrics, tree_with_meaning
from aiflame.exchange.writers.labelled import Labelled, labelled, together
from aiflame.store.numbers import number_of, stack_number
from aiflame.store.tables import Tables, empty

_MEANING = Prefix(("phase", "layer", "op"), code=True)
_LABELS = ("thread", "phase", "layer", "op")
_LONGEST_TEXT, _LONGEST_NOTES = 1024, 4096


def rows_of(profile: Profile, facts: Facts, *, left: bool = False) -> Tables | None:
    """`left`: nobody saw its end, which is then its last event. None: it has no length, so it stands for nothing."""
    meta = profile.meta
    began = meta.started
    process = facts.number
    window = number_of(process, began.monotonic_ns)
    took = (_last(profile) if left or meta.ended is None else meta.ended.monotonic_ns) - began.monotonic_ns
    if took <= 0:
        return None
    tables = empty()
    row = {
        "window": window,
        "process": process,
        "begin_ns": began.realtime_ns,
        "took_ns": took,
        "pid": facts.pid,
        "command": facts.command,
        "user": facts.user,
        "cgroup": facts.cgroup,
        "rank": facts.rank,
        "version": facts.version,
        "notes": "\n".join(meta.degraded)[:_LONGEST_NOTES],
    }
    tables["windows"] = pl.DataFrame([row], schema=tables["windows"].schema)
    store = Analysis(profile.store)
    names = metrics(store)
    if not names:
        return tables
    tree = together([tree_with_meaning(store, name, _MEANING, CALL_LINE) for name in names])
    kept = tuple(metric for metric in tree.metrics if metric not in OF_LIMITS)
    of = labelled(tree.with_values({metric.name: tree.values[metric.name] for metric in kept}, kept))
    return tables | _code(of, window)


def _code(of: Labelled, window: int) -> Tables:
    places = of.places.with_columns(
        pl.when(pl.col("full_name") != "").then("full_name").otherwise("name").str.slice(0, _LONGEST_TEXT).alias("name"),
        pl.col("file").str.slice(0, _LONGEST_TEXT),
    ).select("name", "kind", "module", "file", "begin", "line")
    frames = [number_of(*row) for row in places.iter_rows()]
    number, depth = [0], [0]
    for parent, place in zip(of.parent[1:].tolist(), of.place[1:].tolist(), strict=True):
        number.append(stack_number(number[parent], frames[place]))
        depth.append(min(depth[parent] + 1, 65535))
    stacks = pl.DataFrame(
        {
            "stack": pl.Series(number[1:], dtype=pl.UInt64),
            "parent": pl.Series([number[parent] for parent in of.parent[1:].tolist()], dtype=pl.UInt64),
            "depth": pl.Series(depth[1:], dtype=pl.UInt16),
            "frame": pl.Series([frames[place] for place in of.place[1:].tolist()], dtype=pl.UInt64),
        }
    )
    rows = of.samples.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in _LABELS if name not in of.samples.columns)
    units = {metric.name: metric.unit for metric in of.metrics}
    values = (
        rows.with_columns(pl.Series("stack", [number[node] for node in rows["stack"].to_list()], dtype=pl.UInt64))
        .select(*_LABELS, "stack", *units)
        .unpivot(on=list(units), index=[*_LABELS, "stack"], variable_name="metric", value_name="value")
        .filter(pl.col("value") != 0)
        .with_columns(
            pl.lit(window, dtype=pl.UInt64).alias("window"),
            pl.col("metric").replace_strict(units, return_dtype=pl.String).alias("unit"),
            pl.col(*_LABELS).fill_null(""),
        )
    )
    return {"values": values, "stacks": stacks, "frames": places.with_columns(pl.Series("frame", frames, dtype=pl.UInt64))}


def _last(profile: Profile) -> int:
    """The last moment of a recording whose end is not known."""
    return int(profile.table("cpu_samples")["time_ns"].max() or 0)  # type: ignore[arg-type]
