"""Findings about programs that use no device: the hottest line and function, and threads that wait."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import hottest, is_foreign, place_text, short_place
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.transforms.noise import IMPORT_FILES
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import OPENMP

HOT_FUNCTION = 0.15
HOT_LINE = 0.2
"""Least share of the samples: below it, a program's time is spread out, and no one place decides."""
ENTRY = 0.97
OWN = 0.1
"""A line with more of all time whose cause is unknown, of which its own file runs less, is where a program enters a library that does all:
`pytest.main()`, `trainer.train()`."""
WAITING = 0.15
FEW_SAMPLES = 50
"""A share of a fifth of fewer samples has a standard error of more than 6%."""
GAIN_OF_CODE = 0.5
OF_CODE = ("hot-function", "hot-line")
"""Kinds of findings about running code; two of them at one line say the same."""
_NATIVE = [int(Kind.C), int(Kind.CPP)]


def cpu_findings(cpu: CpuFacts, unexplained: pl.DataFrame, samples: int) -> Iterator[Finding]:
    """`unexplained`: those of its rows whose time has no known cause. `samples`: how many there are."""
    if samples < FEW_SAMPLES or not cpu.total:
        return
    yield from _waits(cpu)
    yield from _function(cpu, unexplained)
    yield from _line(cpu, unexplained)


def _waits(cpu: CpuFacts) -> Iterator[Finding]:
    """Finds threads that spin; `findings.waiting` finds those that are off the CPU."""
    here = cpu.rows.filter(pl.col("waits") == OPENMP)
    part = int(here["value"].sum()) / cpu.total
    if part < WAITING:
        return
    place, _ = hottest(here)
    at = f", most at {short_place(place)}" if place else ""
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(OPENMP)}$", place=place)
    label = METRICS[cpu.metric].label
    yield Finding(f"{part:.0%} of {label} is spent by threads that wait for each other in OpenMP{at}", part, view, "waiting", part)


def _function(cpu: CpuFacts, rows: pl.DataFrame) -> Iterator[Finding]:
    """A native function in which the time is spent itself."""
    label = METRICS[cpu.metric].label
    native = rows.filter((pl.col("waits") == "") & pl.col("function_kind").is_in(_NATIVE) & ~pl.col("function").str.starts_with("["))
    functions = native.group_by("function", "module").agg(pl.col("value").sum()).sort("value", "function", descending=[True, False])
    if functions.is_empty() or functions["value"][0] < HOT_FUNCTION * cpu.total:
        return
    name, module, value = functions.row(0)
    place, _ = hottest(native.filter((pl.col("function") == name) & (pl.col("module") == module)))
    called = f", called from {short_place(place)}" if place else ""
    part = value / cpu.total
    inside = f" ({module})" if module else ""
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(name)}$", place=place)
    yield Finding(f"{part:.0%} of {label} is in {name}{inside}{called}", part, view, "hot-function", part * GAIN_OF_CODE)


def _line(cpu: CpuFacts, rows: pl.DataFrame) -> Iterator[Finding]:
    """A line of the program's own Python under which the time is spent. Interpreters that start are at a line of the import system: nobody
    can do less there."""
    label = METRICS[cpu.metric].label
    running = rows.filter((pl.col("file") != "") & (pl.col("waits") == "") & ~pl.col("file").str.contains(IMPORT_FILES))
    lines = running.group_by("file", "line").agg(pl.col("value").sum(), pl.col("caller").first())
    lines = lines.sort("value", "file", "line", descending=[True, False, False])
    if lines.is_empty() or lines["value"][0] < HOT_LINE * cpu.total:
        return
    file, line, value, caller = lines.row(0)
    here = cpu.rows.filter((pl.col("file") == file) & (pl.col("line") == line) & (pl.col("waits") == ""))
    place, part = place_text(file, line), int(here["value"].sum()) / cpu.total
    if is_foreign(file, caller) and (caller == "<module>" or file.endswith("/__main__.py")):  # all of a tool is below
        return
    if value > ENTRY * int(rows["value"].sum()) and int(here.filter("own")["value"].sum()) < OWN * int(here["value"].sum()):
        return
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(caller)}$", place=place)
    yield Finding(
        f"{part:.0%} of {label} is spent at {short_place(place)} and in the functions that it calls",
        part,
        view,
        "hot-line",
        value / cpu.total * GAIN_OF_CODE,
    )
