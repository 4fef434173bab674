"""Findings about shortages: too few CPUs for the threads, CPU time beyond a quota, memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.scheduling import LEAST_LOOKS, OWN, PAGE, Quota, Scheduling, memory_pressure, quota, scheduling
from aiflame.analyze.scope import steady_scope, whole_run_text
from aiflame.analyze.waiting import threads_of
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.process_frames import INTERPRETER_MODULE
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import OPENMP

LEAST_SHARE = 0.1
TOO_MANY = 1.5
"""Threads for each CPU: a program that computes with as many threads as CPUs has some others that do little."""
A_PART, A_PART_OF_MAIN = 0.05, 0.2
"""Smallest share of the busiest thread's CPU time: with less, a thread does not need a CPU all the time. Main threads also import
modules."""
WITHOUT_LOCK = 0.5
"""Smallest share of the time that Python's threads spend in native code: otherwise they wait for the interpreter's lock, and check it every
5 ms."""
KERNEL = 0.15
"""Smallest share of CPU time."""
FAULTS = 150_000
"""In a second of kernel time. A fault takes 0.5 to 3 µs, including a page of zeros; a system call that copies a page causes hardly any."""
AGAIN = 0.5
"""Smallest share of pages that the program had before: others are the first pages of memory that the program keeps, or belong to its
libraries."""
FROM_DISK = 20
"""In a second."""

_NATIVE = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])
_NATIVE_CODE = pl.col("function_kind").is_in([int(Kind.C), int(Kind.CPP)]) & ~pl.col("module").str.contains(INTERPRETER_MODULE)
_OUTLINED = pl.col("name").str.contains(r"\._omp_fn\.|\.omp_outlined")
_POOLS = {
    "openmp": ("OpenMP's", _NATIVE & (pl.col("module").str.contains(r"^lib(gomp|omp|iomp5)\b") | _OUTLINED)),
    "blas": ("a BLAS library's", _NATIVE & pl.col("module").str.contains(r"openblas|^libmkl|^libblis")),
    "python": ("Python's", (pl.col("kind") == int(Kind.PYTHON)) & pl.col("file").str.contains(r"[/\\]python\d[^/\\]*[/\\]threading\.py$")),
}
"""The pool of threads with such frames; the first row that fits counts."""
_MAIN, _OTHER = "processes", "native"
GAINS = {"openmp": 0.8, "blas": 0.8, "python": 0.5, _MAIN: 0.4, _OTHER: 0.5}
"""Threads of a parallel region wait for the last of them, and that thread may wait for a CPU on which others only spin."""


def processor_findings(profile: Analysis, cpu: CpuFacts | None) -> Iterator[Finding]:
    """Findings about the whole run: the kernel's counters are read a few times a second, too rarely for steps."""
    seen, limit = scheduling(profile), quota(profile)
    if seen is None or seen.looks < LEAST_LOOKS:
        return
    if limit is not None and limit.looks >= LEAST_LOOKS:
        yield from _throttled(profile, seen, limit)
    if cpu is not None:
        yield from _oversubscribed(profile, seen, cpu)
        yield from _faults(profile, seen, cpu)
    yield from _swapping(profile, seen)


def _oversubscribed(profile: Analysis, seen: Scheduling, cpu: CpuFacts) -> Iterator[Finding]:
    wanted = seen.running + seen.ready
    crowded = wanted > TOO_MANY * seen.cpus
    if not crowded.any() or float(seen.running[crowded].mean()) < OWN * seen.cpus:
        return
    lasted, waited = float(crowded.mean()), float(seen.ready[crowded].sum() / wanted[crowded].sum())
    share = lasted * waited
    if share < LEAST_SHARE:
        return
    pool, whose = _whose(profile, cpu)
    if not pool:
        return
    may_use = f"the {seen.cpus:.0f} CPUs" if seen.cpus > 1 else "the only CPU"
    sentence = (
        f"For {lasted:.0%} of {whole_run_text(profile)} {float(np.median(wanted[crowded])):.0f} threads at once want {may_use}"
        f" that the program may use, and wait for one {waited:.0%} of it{whose}"
    )
    yield Finding(sentence, share, _view("threads without a CPU"), f"oversubscribed-{pool}", share * GAINS[pool], of_whole_run=True)


def _whose(profile: Analysis, cpu: CpuFacts) -> tuple[str, str]:
    """The pool of most of the busy threads ("": they share the interpreter's lock), and the end of a sentence about it."""
    pools = _busy(profile, cpu).group_by("pool").agg(pl.len(), pl.col("process").n_unique(), pl.col("value", "free").sum())
    if pools.is_empty():
        return _OTHER, ""
    name, count, processes, spent, free = pools.sort("len", "pool", descending=[True, False]).row(0)
    if name == _MAIN:
        return name, f": {count} processes compute" if count > 1 else ""
    if name == "python" and free < WITHOUT_LOCK * spent:
        return "", ""
    of = _POOLS[name][0] if name in _POOLS else "native code's"
    return name, f": {count} of them are {of}" + (f", in {processes} processes" if processes > 1 else "")


def _busy(profile: Analysis, cpu: CpuFacts) -> pl.DataFrame:
    """process, pool, value, free (time in native code): the threads that need a CPU most."""
    trie = functions(profile)
    leaf = trie.of_stacks(*(cpu.rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack")))
    masks = {name: trie.matching(frames) for name, (_, frames) in _POOLS.items()}
    rows = cpu.rows.select(
        pl.col("process", "thread").cast(pl.Int64),
        "value",
        pl.when(_NATIVE_CODE).then("value").otherwise(0).alias("free"),
        *(pl.Series(name, (nodes.nearest(trie.parent, mask) >= 0)[leaf]) for name, mask in masks.items()),
    ).with_columns(openmp=pl.col("openmp") | (cpu.rows["waits"] == OPENMP))
    threads = rows.group_by("process", "thread").agg(pl.col("value", "free").sum(), *(pl.col(name).any() for name in _POOLS))
    mains = threads_of(profile).filter("main").select("process", "thread", main=pl.lit(True))
    pool = pl.lit(_OTHER)
    for name in reversed(_POOLS):
        pool = pl.when(name).then(pl.lit(name)).otherwise(pool)
    return (
        threads.join(mains, on=["process", "thread"], how="left")
        .filter(pl.col("value") >= pl.when("main").then(A_PART_OF_MAIN).otherwise(A_PART) * pl.col("value").max())
        .select("process", "value", "free", pool=pl.when("main").then(pl.lit(_MAIN)).otherwise(pool))
    )


def _throttled(profile: Analysis, seen: Scheduling, limit: Quota) -> Iterator[Finding]:
    used = limit.used if math.isfinite(limit.used) else float(seen.running.mean())
    share = min(limit.held_up, limit.held_up / max(used + limit.held_up, 1e-9))
    if share < LEAST_SHARE:
        return
    cpus = f"{limit.cpus:.2g} CPU" + ("s" if limit.cpus != 1 else "")
    sentence = f"The quota of its control group, {cpus}, holds the program up {share:.0%} of {whole_run_text(profile)}"
    yield Finding(sentence, share, _view("held up"), "throttled", share * 0.9, of_whole_run=True)


def _faults(profile: Analysis, seen: Scheduling, cpu: CpuFacts) -> Iterator[Finding]:
    """Finds page faults for memory that the program gave back: more faults than the memory that it ever had at once."""
    running, kernel, faults = (float(one.mean()) for one in (seen.running, seen.kernel, seen.faults))
    again = 1 - seen.resident / max(faults * seen.seconds, 1.0)
    share = min(kernel / max(running, 1e-9), 1.0) * again
    if share < KERNEL or again < AGAIN or faults < FAULTS * kernel:
        return
    memory = f"{amount(int(faults * PAGE), 'bytes')} of new memory each second ({faults:,.0f} page faults), and takes it back"
    of_all = "" if steady_scope(profile) is None else "In the whole run, "
    sentence = f"{of_all}{share:.0%} of {METRICS[cpu.metric].label} is in the kernel, which gives the program {memory}"
    yield Finding(sentence, share, _view("page faults"), "page-faults", share * min(running, 1.0) * 0.7, of_whole_run=True)


def _swapping(profile: Analysis, seen: Scheduling) -> Iterator[Finding]:
    share, from_disk = memory_pressure(profile), float(seen.from_disk.mean())
    if share < LEAST_SHARE or from_disk < FROM_DISK:
        return
    lasting = f"{share:.0%} of {whole_run_text(profile)}"
    reads = f"this one reads {from_disk:,.0f} pages a second back from disk"
    sentence = f"Memory is short: programs wait for it {lasting}, and {reads}"
    yield Finding(sentence, share, _view("page faults from disk"), "swapping", share * 0.9, of_whole_run=True)


def _view(series: str) -> Evidence:
    return Evidence("timeline", search=f"^{series}$")
