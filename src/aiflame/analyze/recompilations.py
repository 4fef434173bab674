"""Functions that Dynamo or JAX compiled again and again, and the arguments that changed between the calls."""

from __future__ import annotations

import re
from enum import Enum

import polars as pl

from aiflame.analyze.places import place_text, short_place
from aiflame.analyze.retraces import retraces
from aiflame.analyze.spans import union
from aiflame.attribute.analysis import Analysis
from aiflame.values import dataclass

LEAST_TIMES = 3
"""Twice is usual: the second time, Dynamo makes a changed size dynamic by itself; a last batch is smaller."""


class Changed(Enum):
    """A property of the arguments."""

    SIZE = "size"
    TYPE = "type"
    VALUE = "value"
    STRUCTURE = "structure"
    FUNCTION = "function"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Recompiled:
    """Of the functions whose arguments changed in the same way, the one that took longest to compile."""

    function: str
    place: str
    times: int
    changed: Changed
    because: str
    """Text after "because"."""
    functions: int
    """The number of functions that were compiled again, including this one."""
    ns: int
    """Time of all compilations of these functions."""
    traced: bool
    """JAX traced them."""

    @property
    def kind(self) -> str:
        return f"{'retracing' if self.traced else 'recompiling'}-{self.changed.value}"


_SIZE = re.compile(r"tensor '(?P<name>[^']+)' size mismatch at index (?P<at>\d+)\. expected (?P<was>\d+), actual (?P<now>\d+)")
_TENSOR = re.compile(r"tensor '(?P<name>[^']+)' (?P<which>[\w ]+?) mismatch")
_VALUE = re.compile(r"(?P<name>[\w.\[\]'\"()]+) == (?P<was>\S+)")
_LOCAL = re.compile(r"L\['(\w+)'\]")
_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in')
_LONGEST = 60


def recompiled(profile: Analysis) -> Recompiled | None:
    both = [_by_dynamo(profile)] if profile.has("recompilations") else []
    both += [retraces(profile).with_columns(reason=pl.lit(""), traced=True).drop("process")] if profile.has("jit_traces") else []
    if not both:
        return None
    rows = pl.concat(both, how="diagonal").with_columns(took=pl.col("end_ns") - pl.col("begin_ns"))
    keys = ["function", "file", "line", "changed", "change", "traced"]
    groups = rows.group_by(keys, maintain_order=True).agg(pl.len(), pl.col("took").sum(), pl.col("was"), pl.col("reason").first())
    groups = groups.filter(pl.col("len") >= LEAST_TIMES).sort("took", *keys, descending=[True, *[False] * len(keys)])
    if groups.is_empty():
        return None
    worst = groups.row(0, named=True)
    at = _LINE.search(worst["reason"])
    place = place_text(at["file"], int(at["line"])) if at else place_text(worst["file"], worst["line"])
    values = ", ".join(dict.fromkeys(value for value in worst["was"][:4] if value))
    because = worst["change"] + (f" ({values} …)" if values else "")
    same = rows.filter(traced=worst["traced"])
    ns = union(same["begin_ns"].to_numpy(), same["end_ns"].to_numpy()).total()
    functions = same.n_unique(["file", "line"])
    return Recompiled(worst["function"], place, worst["len"], Changed(worst["changed"]), because, functions, ns, worst["traced"])


def _by_dynamo(profile: Analysis) -> pl.DataFrame:
    columns = [pl.col(name).cast(pl.Int64) for name in ("line", "begin_ns", "end_ns")]
    rows = profile.table("recompilations").select("function", "file", "reason", *columns)
    read = [_read(reason) for reason in rows["reason"].to_list()]
    return rows.with_columns(
        changed=pl.Series([changed.value for changed, *_ in read], dtype=pl.String),
        change=pl.Series([change for _, change, _ in read], dtype=pl.String),
        was=pl.Series([was for *_, was in read], dtype=pl.String),
        traced=False,
    )


def sentence(of: Recompiled) -> str:
    """`f() (train.py:31) is compiled again 12 times, because dimension 1 of x changes (4, 5, 6 …)`"""
    again = "traced and compiled" if of.traced else "compiled"
    return f"{of.function}() ({short_place(of.place)}) is {again} again {of.times} times, because {of.because}"


def _read(reason: str) -> tuple[Changed, str, str]:
    """The change in words, and the earlier value."""
    guard = _LOCAL.sub(r"\1", reason.partition(": ")[2] or reason).partition("#")[0].partition("\n")[0].strip()
    if match := _SIZE.search(guard):
        return Changed.SIZE, f"dimension {match['at']} of {match['name'][:_LONGEST]} changes", match["was"]
    if match := _TENSOR.search(guard):
        return Changed.TYPE, f"the {match['which']} of {match['name'][:_LONGEST]} changes", ""
    if (match := _VALUE.match(guard)) and len(match["was"]) <= _LONGEST:
        return Changed.VALUE, f"{match['name'][:_LONGEST]} changes", match["was"]
    return Changed.OTHER, f"this no longer holds: {guard[:_LONGEST]}", ""
