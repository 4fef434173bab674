"""Findings about programs without a device: the hottest line and function, and threads that wait."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import Places, begins_a_tool, hottest, place_text, short_place
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.transforms.noise import IMPORT_FILES
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import OPENMP

HOT_FUNCTION = 0.15
HOT_LINE = 0.2
"""Smallest share of the samples: below it, a program's time is spread out, and no single place decides."""
ENTRY = 0.97
OWN = 0.1
"""If a line has more than this share of all time from unknown causes below it, and its own file runs less than this share, the program only
enters a library there that does all its work: `pytest.main()`, `trainer.train()`."""
CALLED_BACK = 0.2
"""If other lines of the program below a line have more than this share of its time, they are to blame, and the line only calls them:
`asyncio.run()`."""
WAITING = 0.15
FEW_SAMPLES = 50
"""With fewer samples, a share of a fifth has a standard error of more than 6%."""
GAIN_OF_CODE = 0.5
OF_CODE = ("hot-function", "hot-line")
"""Kinds of findings about running code; two of them at one line say the same."""
_NATIVE = [int(Kind.C), int(Kind.CPP)]
_SPINS_IN_BLAS = pl.col("module").str.contains("openblas") & pl.col("function").is_in(["blas_thread_server", "exec_blas_async_wait"])
"""Only these functions spin; those that they call do work."""


def cpu_findings(cpu: CpuFacts, places: Places, unexplained: pl.DataFrame, samples: int, *, crowded: bool = False) -> Iterator[Finding]:
    """`unexplained`: the rows whose time has no known cause. `samples`: number of samples. `crowded`: other programs took the CPUs."""
    if samples < FEW_SAMPLES or not cpu.total:
        return
    yield from _waits(cpu, crowded)
    yield from _waits_in_blas(cpu)
    yield from _function(cpu, unexplained)
    yield from _line(cpu, places, unexplained)


def _waits(cpu: CpuFacts, crowded: bool) -> Iterator[Finding]:
    """Finds threads that spin; `findings.waiting` finds those that are off the CPU. If another program takes a thread's CPU, the other
    threads of its team wait for it, however evenly the work is divided."""
    here = cpu.rows.filter(pl.col("waits") == OPENMP)
    part = int(here["value"].sum()) / cpu.total
    if part < WAITING:
        return
    place, _ = hottest(here)
    at = f", most at {short_place(place)}" if place else ""
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(OPENMP)}$", place=place)
    label = METRICS[cpu.metric].label
    sentence = f"{part:.0%} of {label} is spent by threads that wait for each other in OpenMP{at}"
    if crowded:
        yield Finding(f"{sentence}, while other programs have the CPUs that some of them need", part, view, "crowded-openmp", part)
    else:
        yield Finding(sentence, part, view, "waiting", part)


def _waits_in_blas(cpu: CpuFacts) -> Iterator[Finding]:
    """Finds threads of OpenBLAS that spin until there is work, and the threads that wait for them."""
    here = cpu.rows.filter(_SPINS_IN_BLAS)
    part = int(here["value"].sum()) / cpu.total
    if part < WAITING:
        return
    place, _ = hottest(here)
    at = f", most at {short_place(place)}" if place else ""
    function = here.group_by("function").agg(pl.col("value").sum()).sort("value", "function", descending=[True, False])["function"][0]
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(function)}$", place=place)
    label = METRICS[cpu.metric].label
    yield Finding(f"{part:.0%} of {label} is spent by threads that wait for each other in OpenBLAS{at}", part, view, "waiting-blas", part)


def _function(cpu: CpuFacts, rows: pl.DataFrame) -> Iterator[Finding]:
    """A native function that itself takes much of the time."""
    label = METRICS[cpu.metric].label
    native = rows.filter(
        ~_SPINS_IN_BLAS, (pl.col("waits") == "") & pl.col("function_kind").is_in(_NATIVE) & ~pl.col("function").str.starts_with("[")
    )
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


def _line(cpu: CpuFacts, places: Places, rows: pl.DataFrame) -> Iterator[Finding]:
    """A line of the program's own Python under which much of the time is spent. Interpreters that start are at a line of the import system,
    where no code of the program can save time."""
    label = METRICS[cpu.metric].label
    running = rows.filter((pl.col("file") != "") & (pl.col("waits") == "") & ~pl.col("file").str.contains(IMPORT_FILES))
    lines = running.group_by("file", "line").agg(pl.col("value").sum(), pl.col("caller").first())
    lines = lines.filter(pl.col("value") >= HOT_LINE * cpu.total).sort("value", "file", "line", descending=[True, False, False])
    for file, line, value, caller in lines.rows():
        here = cpu.rows.filter((pl.col("file") == file) & (pl.col("line") == line) & (pl.col("waits") == ""))
        if begins_a_tool(file, caller):
            return
        if _enters_a_library(places, rows, here, file, line):
            continue
        place, part = place_text(file, line), int(here["value"].sum()) / cpu.total
        view = Evidence("flame", cpu.metric, "code", f"^{escaped(caller)}$", place=place)
        sentence = f"{part:.0%} of {label} is spent at {short_place(place)} and in the functions that it calls"
        yield Finding(sentence, part, view, "hot-line", value / cpu.total * GAIN_OF_CODE)
        return


def _enters_a_library(places: Places, rows: pl.DataFrame, here: pl.DataFrame, file: str, line: int) -> bool:
    rows = rows.filter(pl.col("process").is_in(here["process"].unique().to_list()))  # another process may be a client of this one
    process, stack = (rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack"))
    below = rows.filter(pl.Series(places.under(file, line, process, stack)))
    under, itself = int(below["value"].sum()), int(below.filter((pl.col("file") == file) & (pl.col("line") == line))["value"].sum())
    own = int(here.filter("own")["value"].sum()) / max(int(here["value"].sum()), 1)
    placed = int(rows.filter(pl.col("file") != "")["value"].sum())  # an interpreter that ends is at no line of the program
    return own < OWN and (under > ENTRY * placed or itself < (1 - CALLED_BACK) * under)
