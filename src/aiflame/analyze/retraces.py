"""Jitted functions that JAX traced again, and the arguments that had changed."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.events import LATEST

_NEW_FUNCTION = "it is a new function each time"
_LONGEST = 60


def retraces(profile: Analysis) -> pl.DataFrame:
    """process, function, file, line, changed (a value of `Changed`), change (text after "because"), was (the earlier value), and begin_ns
    and end_ns of the call that traced and compiled, or only of the trace if no call around it was recorded."""
    names = ("begin_ns", "end_ns")
    times = [pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in names]
    rows = profile.table("jit_traces").with_columns(*times, pl.col("line").cast(pl.Int64)).filter(pl.col("change") != "other")
    read = [_read(*row) for row in rows.select("change", "argument", "before", "now").rows()]
    rows = rows.select(
        "process",
        pl.col("name").str.replace_all("<locals>.", "", literal=True).alias("function"),
        "file",
        "line",
        *names,
        changed=pl.Series([changed for changed, *_ in read], dtype=pl.String),
        change=pl.Series([change for _, change, _ in read], dtype=pl.String),
        was=pl.Series([was for *_, was in read], dtype=pl.String),
    )
    if not profile.has("jit_calls"):
        return rows
    # Recorded calls of one thread do not overlap: the last one that began before a trace is either the call around it, or a call of another
    # thread.
    calls = profile.table("jit_calls").select("process", "thread", *times).rename({"begin_ns": "call", "end_ns": "returned"}).sort("call")
    of_threads = rows.with_row_index("row").join(calls.select("process", "thread").unique(), on="process").sort("begin_ns")
    around = of_threads.join_asof(calls, left_on="begin_ns", right_on="call", by=["process", "thread"], check_sortedness=False)
    around = around.filter(pl.col("returned") >= pl.col("end_ns"))
    shortest = around.sort(pl.col("returned") - pl.col("call")).unique("row", keep="first").select("row", "call", "returned")
    rows = rows.with_row_index("row").join(shortest, on="row", how="left", maintain_order="left")
    whole = [pl.coalesce(outer, inner).alias(inner) for outer, inner in (("call", "begin_ns"), ("returned", "end_ns"))]
    return rows.with_columns(whole).drop("row", "call", "returned")


def _read(change: str, argument: str, before: str, now: str) -> tuple[str, str, str]:
    name = argument[:_LONGEST] or "an argument"
    if change == "shape":
        old, new = before.split(","), now.split(",")
        different = [at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
        if len(old) == len(new) and len(different) == 1:
            return "size", f"dimension {different[0]} of {name} changes", old[different[0]]
        return "size", f"the shape of {name} changes", f"({before})"
    if change == "type":
        return "type", f"the dtype of {name} changes", before
    if change == "value":
        return "value", f"{name} changes", before
    if change == "structure":
        return "structure", "the structure of the arguments changes", before
    return "function", _NEW_FUNCTION, ""
