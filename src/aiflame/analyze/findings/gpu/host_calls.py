"""Calls that programs should make before their steps, not in them: allocations of device memory, compilers, autotuners."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_SAMPLES, least
from aiflame.analyze.findings.gpu.facts import Facts, at
from aiflame.analyze.places import place_of, place_text
from aiflame.analyze.recompilations import recompiled
from aiflame.analyze.recompilations import sentence as recompiled_sentence
from aiflame.analyze.scope import in_scope
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.stacks.functions import Functions
from aiflame.attribute.stacks.sample_time import sample_ns, traced
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

_OF_OTHER_TOOLS = r"^((cuda|hip)_(runtime|driver)|Runtime|CUDA|HIP)$"
"""Modules of a runtime's calls in imported traces."""
_NATIVE = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])


def _python(file: str, name: str = "") -> pl.Expr:
    """Functions of installed packages."""
    return (pl.col("kind") == int(Kind.PYTHON)) & pl.col("file").str.contains(rf"(^|[/\\]){file}$") & pl.col("name").str.contains(name)


@dataclass(frozen=True, slots=True)
class _Calls:
    kind: str
    doing: str
    """Text after "the program"."""
    frames: pl.Expr


_ALL = (
    _Calls(
        "allocator",
        "takes GPU memory from the driver and gives it back",
        (_NATIVE & pl.col("module").str.contains(r"^libcudart") & pl.col("name").str.contains(r"^cuda(Malloc|Free|HostAlloc)"))
        | (
            _NATIVE
            & pl.col("module").str.contains(r"^libcuda\.so")
            & pl.col("name").str.contains(r"^cuMem(Alloc|Free|Create|Map|Unmap|Release|HostAlloc)")
        )
        | (
            _NATIVE
            & pl.col("module").str.contains(_OF_OTHER_TOOLS)
            & pl.col("name").str.contains(r"^((cuda|hip)(Malloc|Free|HostAlloc)|cuMem(Alloc|Free|Create|Map|Unmap|Release|HostAlloc))")
        )
        | (_NATIVE & pl.col("name").str.contains(r"CUDACachingAllocator::.*(emptyCache|release_cached_blocks)"))
        | _python(r"torch[/\\]cuda[/\\]memory\.py", r"^empty_cache$"),
    ),
    _Calls(
        "recompiling",
        "compiles",
        _python(r"torch[/\\]_dynamo[/\\]convert_frame\.py")
        | _python(r"torch[/\\]_inductor[/\\]compile_fx\.py")
        | _python(r"jax[/\\]_src[/\\]compiler\.py")
        | _python(r"jax[/\\]_src[/\\]interpreters[/\\](mlir|partial_eval)\.py", r"^(lower_jaxpr_to_module|trace_to_jaxpr\w*)$")
        | (_NATIVE & pl.col("name").str.contains(r"^nvrtcCompileProgram")),
    ),
    _Calls(
        "autotuning",
        "tries out variants of kernels",
        _python(r"triton[/\\]runtime[/\\]autotuner\.py", r"(^|\.)(_bench|benchmark)$")
        | _python(r"triton[/\\]testing\.py", r"^do_bench")
        | _python(r"torch[/\\]_inductor[/\\](select_algorithm|autotune_process)\.py")
        | _python(r"torch[/\\]_inductor[/\\]runtime[/\\]benchmarking\.py"),
    ),
    _Calls(
        "specializing",
        "compiles specializations of Triton kernels",
        _python(r"triton[/\\]compiler[/\\]compiler\.py", r"^compile$") | _python(r"triton[/\\]runtime[/\\]jit\.py", r"(^|\.)_do_compile$"),
    ),
)
"""The first cause anywhere in a stack counts: compiling includes autotuning, and that includes specializing."""


def host_calls(facts: Facts) -> Iterator[Finding]:
    samples = _in_steps(facts)
    for number, calls in enumerate(_ALL):
        here = samples.filter(cause=number)
        totals = (pl.col("ns").sum(), pl.col("ns").filter("late").sum().alias("late_ns"), pl.len(), pl.col("whole").first())
        for clock, ns, late_ns, count, whole in here.group_by("clock").agg(*totals).sort("ns", descending=True).rows():
            share = ns / max(whole, 1)
            goes_on = facts.scope.in_steps or 2 * late_ns / max(whole, 1) >= least(calls.kind)
            enough = count >= FEW_SAMPLES or traced(here.filter(clock=clock)["ns"])
            if goes_on and share >= least(calls.kind) and enough:
                yield _finding(facts, calls, share, here.filter(clock=clock))
                break


def _finding(facts: Facts, calls: _Calls, share: float, rows: pl.DataFrame) -> Finding:
    process, thread, stack = (rows[name].to_numpy() for name in ("process", "thread", "stack"))
    places = facts.analysis.places.rows[place_of(facts.analysis.profile, process, thread, stack)]
    lines = places.filter(pl.col("file") != "").group_by("file", "line").len().sort("len", "file", "line", descending=[True, False, False])
    place = place_text(lines["file"][0], lines["line"][0]) if len(lines) else ""
    changed = _changing_argument(facts) if calls.kind in ("specializing", "autotuning") else ""
    if calls.kind == "recompiling" and (again := recompiled(facts.analysis.profile)) is not None:
        changed = f"; {'in the whole run, ' if facts.scope.in_steps else ''}{recompiled_sentence(again)}"
    by = "" if traced(rows["ns"]) else f" ({len(rows):,} samples)"
    sentence = f"In {share:.0%} {facts.scope.label} the program {calls.doing}{at(place)}{by}{changed}"
    view = Evidence("flame", next(name for name, clock in CLOCK.items() if clock == rows["clock"][0]), "code", place=place)
    return Finding(sentence, min(share, 1.0), view, calls.kind, min(share, 1.0))


def _in_steps(facts: Facts) -> pl.DataFrame:
    """process, thread, stack, clock, cause (number in `_ALL`), ns of samples of launching threads in the time that findings cover; `whole`:
    length of that time; `late`: the sample is in its second half. A program without steps compiles once at its start, which is normal."""
    profile = facts.analysis.profile
    windows = _windows(facts)
    whole = sum(spans.total() for spans in windows.values())
    columns = [pl.col(name).cast(pl.Int64) for name in ("process", "thread", "stack")]
    rows = profile.scan("cpu_samples").select(
        *columns, "clock", time_ns=pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64), ns=sample_ns().cast(pl.Int64)
    )
    samples = rows.filter((pl.col("process") * (1 << 32) + pl.col("thread")).is_in(list(windows))).collect()
    parts = samples.partition_by("process", "thread", as_dict=True)
    inside = []
    for (process, thread), part in parts.items():
        spans = windows[process << 32 | thread]
        middle = (int(spans.begin[0]) + int(spans.end[-1])) // 2 if len(spans) else 0
        inside.append(part.filter(pl.Series(_within(spans, part["time_ns"].to_numpy()))).with_columns(late=pl.col("time_ns") >= middle))
    together = pl.concat([samples.clear().with_columns(late=pl.lit(False)), *inside])
    trie = facts.analysis.trie
    leaf = trie.of_stacks(together["process"].to_numpy(), together["stack"].to_numpy())
    return together.with_columns(cause=pl.Series(_causes(trie)[leaf]), whole=pl.lit(whole)).filter(pl.col("cause") >= 0)


def _windows(facts: Facts) -> dict[int, Spans]:
    """By process << 32 | thread: its steps in the scope; without any, the time from its first launch to its last."""
    analysis = facts.analysis
    windows = {}
    if facts.scope.in_steps:
        for (process, thread), rows in in_scope(analysis.profile, analysis.steps).partition_by("process", "thread", as_dict=True).items():
            windows[int(process) << 32 | int(thread)] = union(*(rows[side].cast(pl.Int64).to_numpy() for side in ("begin_ns", "end_ns")))
        return windows
    launches = analysis.launches
    for place, thread in enumerate(launches.threads.tolist()):
        row = np.flatnonzero(launches.thread == place)
        if len(row):
            windows[thread] = union(launches.begin_ns[row].min(keepdims=True), launches.end_ns[row].max(keepdims=True))
    return windows


def _within(spans: Spans, moment: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    at_or_before = np.searchsorted(spans.begin, moment, side="right") - 1
    return (at_or_before >= 0) & (moment < np.append(spans.end, 0)[at_or_before])


def _causes(trie: Functions) -> Ints:
    """For each node the number of the first cause in `_ALL` that is at or above it, -1: none."""
    cause = np.full(len(trie.frame), -1, dtype=np.int64)
    for number, calls in reversed(list(enumerate(_ALL))):
        cause[nodes.nearest(trie.parent, trie.matching(calls.frames)) >= 0] = number
    return cause


def _changing_argument(facts: Facts) -> str:
    """The kernel with most specializations, and the constants that differ between them."""
    profile = facts.analysis.profile
    if not profile.has("kernel_variants"):
        return ""
    constants: dict[tuple[str, int], list[dict[str, object]]] = {}
    names: dict[tuple[str, int], str] = {}
    for name, details in profile.table("kernel_variants").select("name", "details").rows():
        try:
            variant = json.loads(details)
            source = str(variant["file"]), int(variant["line"])
            values = {**variant.get("constexprs", {}), **variant.get("constants", {}), **variant.get("signature", {})}
        except (ValueError, KeyError, TypeError):
            continue
        constants.setdefault(source, []).append(values)
        names[source] = name
    if not constants:
        return ""
    source = max(constants, key=lambda one: (len(constants[one]), one))
    variants = constants[source]
    keys = sorted({key for values in variants for key in values})
    differ = [key for key in keys if len({repr(values.get(key)) for values in variants}) > len(variants) / 2]
    if len(variants) < 3 or not differ:
        return ""
    return f"; {names[source]} has {len(variants)} specializations, which differ in {', '.join(differ[:3])}"
