"""Findings about programs that use no device: the hottest line and function, and threads that wait."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import place_text, short_place
from aiflame.attribute.metrics import METRICS
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import GIL, IO, LOCK, OPENMP

HOT_FUNCTION = 0.15
HOT_LINE = 0.2
"""Of the samples: below, a program's time is spread out, and no one place decides."""
WAITING = 0.15
FEW_SAMPLES = 50
"""A share of a fifth of fewer samples has a standard error of more than 6%."""
GAIN_OF_CODE = 0.5
OF_CODE = ("hot-function", "hot-line")
"""Kinds of findings about running code; two of them at one line say the same."""
WAITS = {
    OPENMP: "threads that wait for each other in OpenMP",
    GIL: "threads that wait for Python's interpreter lock (GIL)",
    LOCK: "threads that wait for locks",
    IO: "threads that wait for input and output",
}
_NATIVE = [int(Kind.C), int(Kind.CPP)]


def cpu_findings(cpu: CpuFacts, samples: int) -> Iterator[Finding]:
    """`samples`: how many there are."""
    if samples < FEW_SAMPLES or not cpu.total:
        return
    yield from _waits(cpu)
    yield from _function(cpu)
    yield from _line(cpu)


def _waits(cpu: CpuFacts) -> Iterator[Finding]:
    label = METRICS[cpu.metric].label
    for name, waiters in WAITS.items():
        here = cpu.rows.filter(pl.col("waits") == name)
        part = int(here["value"].sum()) / cpu.total
        if part < WAITING:
            continue
        place = _hottest(here)
        at = f", most at {short_place(place)}" if place else ""
        view = Evidence("flame", cpu.metric, "code", f"^{escaped(name)}$", place=place)
        yield Finding(f"{part:.0%} of {label} is {waiters}{at}", part, view, "waiting", part)


def _function(cpu: CpuFacts) -> Iterator[Finding]:
    """A native function in which the time is spent itself."""
    label = METRICS[cpu.metric].label
    native = cpu.rows.filter((pl.col("waits") == "") & pl.col("function_kind").is_in(_NATIVE) & ~pl.col("function").str.starts_with("["))
    functions = native.group_by("function", "module").agg(pl.col("value").sum()).sort("value", "function", descending=[True, False])
    if functions.is_empty() or functions["value"][0] < HOT_FUNCTION * cpu.total:
        return
    name, module, value = functions.row(0)
    place = _hottest(native.filter((pl.col("function") == name) & (pl.col("module") == module)))
    called = f", called from {short_place(place)}" if place else ""
    part = value / cpu.total
    inside = f" ({module})" if module else ""
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(name)}$", place=place)
    yield Finding(f"{part:.0%} of {label} is in {name}{inside}{called}", part, view, "hot-function", part * GAIN_OF_CODE)


def _line(cpu: CpuFacts) -> Iterator[Finding]:
    """A line of the program's own Python under which the time is spent."""
    label = METRICS[cpu.metric].label
    running = cpu.rows.filter((pl.col("file") != "") & (pl.col("waits") == ""))
    lines = running.group_by("file", "line").agg(pl.col("value").sum(), pl.col("caller").first())
    lines = lines.sort("value", "file", "line", descending=[True, False, False])
    if lines.is_empty() or lines["value"][0] < HOT_LINE * cpu.total:
        return
    file, line, value, caller = lines.row(0)
    place, part = place_text(file, line), value / cpu.total
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(caller)}$", place=place)
    yield Finding(
        f"{part:.0%} of {label} is spent at {short_place(place)} and in what it calls", part, view, "hot-line", part * GAIN_OF_CODE
    )


def _hottest(rows: pl.DataFrame) -> str:
    lines = rows.filter(pl.col("file") != "").group_by("file", "line").agg(pl.col("value").sum())
    lines = lines.sort("value", "file", "line", descending=[True, False, False])
    return place_text(lines["file"][0], lines["line"][0]) if len(lines) else ""
