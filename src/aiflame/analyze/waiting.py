"""Waiting as a part of elapsed time, by its reason.

Waits come from wall-clock samples (`--wall`), otherwise from the recorder's looks (the table `waits`). A thread that waits for work to
come, such as a worker of a pool or an event loop, is idle; the time of a thread that waits for other threads or processes is divided as
theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
import polars as pl

from aiflame.analyze.native_places import own_places, primitives
from aiflame.analyze.scheduling import scheduling
from aiflame.analyze.spans import union
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.process_frames import names_from_python
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.attribute.tree import WALL_TIME
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import GIL, IO, LOCK, OPENMP, SLEEP
from aiflame.values import dataclass


class Why(Enum):
    """The reason of a wait."""

    LOCK = "lock"
    GIL = "gil"
    IO = "io"
    SLEEP = "sleep"
    DATA = "data"
    """it waits for batches of a DataLoader"""
    OTHER = "other"
    THREADS = "threads"
    """it waits for other threads of its process"""
    PROCESSES = "processes"
    """it waits for child processes"""
    IDLE = "idle"
    """it waits for work to come"""


COSTS = (Why.LOCK, Why.GIL, Why.IO, Why.SLEEP, Why.DATA, Why.OTHER)
"""Reasons of waits whose time better code might win."""

_PYTHON = pl.col("kind") == int(Kind.PYTHON)
_NATIVE = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])


def _standard(file: str, *functions: str) -> pl.Expr:
    name = rf"(^|\.)({'|'.join(functions)})$" if functions else ""
    return _PYTHON & pl.col("file").str.contains(rf"(^|[/\\]){file}$") & pl.col("name").str.contains(name)


_DATA = _standard(r"torch[/\\]utils[/\\]data[/\\]dataloader\.py", "_next_data", "__next__")
_WORKER = _standard(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]worker\.py", "_worker_loop")
_PROCESSES = (
    _standard(r"subprocess\.py")
    | _standard(r"multiprocessing[/\\](popen_\w+|process)\.py", "wait", "poll", "join")
    | _standard(r"multiprocessing[/\\]pool\.py", "get", "wait", "next", "join")
    | _standard(r"concurrent[/\\]futures[/\\]process\.py", "shutdown")
    | (_NATIVE & pl.col("name").str.contains(r"^(__)?(wait4|waitid|waitpid)(@|$)"))
)
_EVENTS = _NATIVE & pl.col("name").str.contains(r"^(_*(GI|libc)_*)?_*(p?select(64)?(_syscall)?|p?poll)(@|$)")
"""Programs without Python that have started others, such as make, learn of their ends in such calls."""
_POOL = _standard(r"concurrent[/\\]futures[/\\]thread\.py", "_worker")
"""Idle if it is the innermost Python function; otherwise it runs a task."""
_IDLE = (
    _standard(r"concurrent[/\\]futures[/\\]process\.py", "run", "wait_result_broken_or_wakeup")
    | _standard(r"multiprocessing[/\\]pool\.py", r"_handle_\w+", r"_wait_for_updates")
    | _standard(r"multiprocessing[/\\](resource_tracker|forkserver)\.py", "main")
    | _standard(r"multiprocessing[/\\]queues\.py", "_feed")
    | _standard(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]pin_memory\.py")
    | _standard(r"selectors\.py", "select")
    | _standard(r"socket\.py", "accept")
    | (_NATIVE & pl.col("name").str.contains(r"^(__)?(libc_)?(accept4?|epoll_p?wait2?)(@|$)"))
)
_THREADS = (
    _standard(r"threading\.py", "wait", "wait_for", "join", "_wait_for_tstate_lock", "_shutdown", r"_join_thread")
    | _standard(r"multiprocessing[/\\](queues|connection)\.py", "get", "wait", "recv", "recv_bytes", "poll")
    | (
        _NATIVE
        & pl.col("name").str.contains(r"SimpleQueue_get|ThreadHandle_join|thread_pthread_join|^_*(pthread_cond_\w*wait|pthread_\w*join\w*)")
    )
)
"""A thread that waits for others in such a function is idle …"""
_JOINS = (
    _standard(r"threading\.py", "join", "_wait_for_tstate_lock", "_shutdown", "_join_thread")
    | _standard(
        r"concurrent[/\\]futures[/\\](_base|thread)\.py", "result", "exception", "wait", "shutdown", "as_completed", "result_iterator"
    )
    | (_NATIVE & pl.col("name").str.contains(r"ThreadHandle_join|thread_pthread_join|^_*pthread_\w*join"))
)
"""… but if a main thread waits for the end of others in such a function, their time counts for it."""
LOOP = _standard(r"asyncio[/\\]events\.py", "_run") | (_PYTHON & pl.col("name").str.contains(r"^(Loop|Handle)\._(run|on_\w+)$"))
"""Under these frames a callback of an event loop runs."""
_OF_LABELS = {GIL: Why.GIL, LOCK: Why.LOCK, IO: Why.IO, SLEEP: Why.SLEEP, OPENMP: Why.IDLE}


@dataclass(frozen=True, slots=True)
class Waiting:
    """All samples or looks of threads, and the threads."""

    seen: pl.DataFrame
    """process, thread, begin_ns, end_ns, ns, why (null: it ran), looped (a callback of an event loop is on the
    stack), loads (a DataLoader's worker), call (the native function), primitive
    (`native_places.primitives`), file, line, caller, module (of native code)."""
    threads: pl.DataFrame
    """process, thread, main, name, parent (process), began_ns, elapsed_ns, cpu_ns (0: unknown)"""
    sampled: bool
    """True if it comes from wall-clock samples."""
    ready_ns: int = 0
    """Part of the samples' time: threads were ready to run and had no CPU, by the kernel's accounts. Some of it is in `seen` as waits."""

    def of(self, process: int, thread: int | None = None) -> pl.DataFrame:
        here = self.seen.filter(pl.col("process") == process)
        return here if thread is None else here.filter(pl.col("thread") == thread)


@once
def waiting(profile: Analysis) -> Waiting | None:
    """None if neither was recorded."""
    samples = profile.scan("cpu_samples")
    sampled = bool(samples.filter(pl.col("clock") == CLOCK[WALL_TIME.name]).head(1).collect().height)
    columns = [*(pl.col(name).cast(pl.Int64) for name in ("process", "thread", "stack")), pl.col("time_ns").clip(0, LATEST).cast(pl.Int64)]
    on_clock = samples.filter(pl.col("clock") == int(sampled))
    rows = [on_clock.select(*columns, pl.col("state").cast(pl.Int64), ns=sample_ns().cast(pl.Int64)).collect()]
    if not sampled:
        if not profile.has("waits"):
            return None
        looks = profile.scan("waits").select(
            *columns, state=pl.lit(int(SampleState.WAITING), pl.Int64), ns=pl.col("off_us").cast(pl.Int64) * 1000
        )
        rows = [rows[0].with_columns(state=pl.lit(int(SampleState.ON_CPU), pl.Int64)), looks.collect()]
    threads = threads_of(profile)
    seen = pl.concat(rows).with_columns(pl.col("time_ns").clip(0, LATEST)).sort("process", "thread", "time_ns")
    kernel = scheduling(profile) if sampled else None
    ready_ns = int(kernel.ready.mean() * kernel.seconds * 1e9) if kernel is not None else 0
    return Waiting(_placed(profile, seen, threads), threads, sampled, ready_ns)


def _placed(profile: Analysis, seen: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    trie = functions(profile)
    process, thread, stack = (seen[name].to_numpy() for name in ("process", "thread", "stack"))
    states, labelled = state_frames(trie, seen.select("process", "stack", "state"))
    leaf = trie.of_stacks(process, stack)
    main = threads.filter("main").select("process", "thread", main=pl.lit(True))
    facts = seen.select(
        "process",
        "thread",
        label=states["name"].gather(labelled["ending0"]).fill_null(""),
        waits=pl.col("state") == int(SampleState.WAITING),
        parent=_has_children(seen, threads),
    ).join(main, on=["process", "thread"], how="left", maintain_order="left")
    why = _reasons(trie, leaf, facts.with_columns(pl.col("main").fill_null(False)))
    looped, loads = (nodes.nearest(trie.parent, trie.matching(frames)) >= 0 for frames in (LOOP, _WORKER))
    return seen.select(
        "process",
        "thread",
        begin_ns=pl.col("time_ns") - pl.col("ns"),
        end_ns="time_ns",
        ns="ns",
        why=why,
        looped=pl.Series(looped[leaf]),
        loads=pl.Series(loads[leaf]),
        call=trie.frames["name"].gather(trie.frame[leaf]),
        primitive=primitives(trie, leaf),
    ).hstack(own_places(profile, process, thread, stack))


def _reasons(trie: Functions, leaf: Ints, rows: pl.DataFrame) -> pl.Series:
    """The reason for each of `rows` (with label, main and waits). The innermost known function decides, but frames of a DataLoader and of
    child processes decide at any depth."""

    def under(frames: pl.Expr) -> pl.Series:
        return pl.Series(nodes.nearest(trie.parent, trie.matching(frames))[leaf])

    frames_of = {"data": _DATA, "processes": _PROCESSES, "idle": _IDLE, "threads": _THREADS, "joins": _JOINS}
    here = rows.with_columns(**{name: under(frames) for name, frames in frames_of.items()})
    pool, python = under(_POOL), under(_PYTHON)
    hears = here["parent"] & (python < 0) & (under(_EVENTS) >= 0)
    here = here.with_columns(idle=pl.when((pool >= 0) & (pool == python)).then(pool).otherwise("idle"))
    label = pl.col("label").replace_strict({name: why.value for name, why in _OF_LABELS.items()}, default=Why.OTHER.value)
    joins = pl.when((pl.col("joins") > pl.col("idle")) & pl.col("main")).then(pl.lit(Why.THREADS.value)).otherwise(pl.lit(Why.IDLE.value))
    why = (
        pl.when(~pl.col("waits") & (pl.col("label") != OPENMP))
        .then(pl.lit(None, pl.String))
        .when(pl.col("label") == GIL)
        .then(pl.lit(Why.GIL.value))
        .when(pl.col("data") >= 0)
        .then(pl.lit(Why.DATA.value))
        .when(pl.col("label") == SLEEP)
        .then(pl.lit(Why.SLEEP.value))
        .when((pl.col("processes") >= 0) | hears)
        .then(pl.lit(Why.PROCESSES.value))
        .when(pl.max_horizontal("idle", "threads") >= 0)
        .then(joins)
        .otherwise(label)
    )
    return here.select(why=why)["why"]


def _has_children(seen: pl.DataFrame, threads: pl.DataFrame) -> pl.Series:
    """True for rows during more than half of which the process had a child process."""
    there = np.zeros(len(seen), dtype=np.bool_)
    begin, end, process = (seen.select(value).to_series().to_numpy() for value in (pl.col("time_ns") - pl.col("ns"), "time_ns", "process"))
    for (parent,), children in threads.filter("main", pl.col("parent").is_not_null()).partition_by("parent", as_dict=True).items():
        own = process == parent
        lives = union(children["began_ns"].to_numpy(), (children["began_ns"] + children["elapsed_ns"]).to_numpy())
        there[own] = 2 * lives.within(begin[own], end[own]) > end[own] - begin[own]
    return pl.Series(there)


def threads_of(profile: Analysis) -> pl.DataFrame:
    """`Waiting.threads`"""
    ids = [pl.col(name).cast(pl.Int64) for name in ("process", "thread")]
    ends = profile.table("thread_ends").select(
        *ids, "name", pl.col("end_ns").cast(pl.Int64), pl.col("cpu_ns").cast(pl.Int64)
    ).unique(["process", "thread"], keep="last")  # fmt: skip
    processes = profile.table("processes").select(pl.col("process", "pid", "ppid").cast(pl.Int64))
    last = (
        profile.scan("cpu_samples")
        .group_by(pl.col("process", "thread").cast(pl.Int64))
        .agg(last=pl.col("time_ns").max().cast(pl.Int64))
        .collect()
    )
    threads = profile.table("threads")
    given = names_from_python(threads, profile.table("thread_names")).select(
        pl.col("process").cast(pl.Int64), pl.col("id").cast(pl.Int64).alias("thread"), "given"
    )
    parents = processes.select(parent="process", ppid="pid").unique("ppid", keep="first")
    began = pl.col("start_ns").cast(pl.Int64)
    rows = (
        threads.select(
            pl.col("process").cast(pl.Int64),
            pl.col("id").cast(pl.Int64).alias("thread"),
            pl.col("tid").cast(pl.Int64),
            first="name",
            began_ns=began,
        )
        .join(ends, on=["process", "thread"], how="left")
        .join(last, on=["process", "thread"], how="left")
        .join(given, on=["process", "thread"], how="left")
        .join(processes, on="process", how="left")
        .join(parents, on="ppid", how="left")
    )
    end = pl.coalesce("end_ns", "last", "began_ns")
    return rows.select(
        "process",
        "thread",
        "parent",
        main=(pl.col("tid") == pl.col("pid")).fill_null(False),
        name=pl.coalesce("given", pl.when(pl.col("name") != "").then("name").otherwise("first")).fill_null(""),
        began_ns="began_ns",
        elapsed_ns=(end - pl.col("began_ns")).clip(lower_bound=1),
        cpu_ns=pl.col("cpu_ns").fill_null(0),
    ).sort("process", "thread")


def idle_share(of: Waiting) -> float:
    """The part of its time for which the first main thread waited for work, or for its own threads and processes."""
    main = of.threads.filter("main").sort("began_ns", "process").head(1)
    if main.is_empty():
        return 0.0
    own = of.of(int(main["process"][0]), int(main["thread"][0]))
    return sum(_sum(own, why) for why in (Why.IDLE, Why.THREADS, Why.PROCESSES)) / int(main["elapsed_ns"][0])


@dataclass(frozen=True, slots=True)
class Cost:
    """A part of elapsed time that is lost by waiting."""

    share: float
    rows: pl.DataFrame
    """Its rows of `Waiting.seen`."""


def costs(of: Waiting) -> Mapping[Why, Cost]:
    """Shares of the elapsed time of the first main thread. If it waits for threads and processes, their waits count instead."""
    mains = of.threads.filter("main")
    if mains.is_empty():
        return {}
    first = mains.sort("began_ns", "process").row(0, named=True)
    shares, rows = _of_process(of, int(first["process"]), set())
    return {why: Cost(share, pl.concat(rows[why])) for why, share in shares.items() if rows.get(why)}


def by_line(of: Waiting) -> pl.DataFrame:
    """why, file, line, function, seconds, looks: the waits that cost time, the longest first."""
    rows = [cost.rows for cost in costs(of).values()] or [of.seen.clear()]
    lines = pl.concat(rows).group_by("why", "file", "line", function="caller").agg(seconds=pl.col("ns").sum() / 1e9, looks=pl.len())
    return lines.sort("seconds", "why", "file", "line", descending=[True, False, False, False])


def _of_process(of: Waiting, process: int, above: set[int]) -> tuple[dict[Why, float], dict[Why, list[pl.DataFrame]]]:
    seen, threads = of.of(process), of.threads.filter(pl.col("process") == process)
    main = threads.filter("main").head(1)
    if main.is_empty():
        return {}, {}
    thread, elapsed = int(main["thread"][0]), int(main["elapsed_ns"][0])
    own = seen.filter(pl.col("thread") == thread)
    shares = {why: min(_sum(own, why) / elapsed, 1.0) for why in Why}
    rows = {why: [part] for why in COSTS if len(part := own.filter(pl.col("why") == why.value))}
    away = min(shares[Why.THREADS] + shares[Why.IDLE], 1.0)
    others = _threads_that_work(seen.filter(pl.col("thread") != thread), threads)
    if away > 0 and others:
        busy = sum(others.values())
        worked = seen.filter(pl.col("thread").is_in(list(others)))
        # A thread that sometimes sleeps, beside one that waits for work, delays nothing.
        for why, at_most in ((why, shares[Why.THREADS] if why is Why.SLEEP else away) for why in COSTS):
            scale = min(busy / elapsed, at_most) / busy
            _add(shares, rows, why, scale * _sum(worked, why), [worked.filter(pl.col("why") == why.value)])
    children = of.threads.filter("main", pl.col("parent") == process, ~pl.col("process").is_in(list(above | {process})))
    if shares[Why.PROCESSES] > 0 and len(children):
        total = int(children["elapsed_ns"].sum())
        for child, took in children.select("process", "elapsed_ns").rows():
            below, its_rows = _of_process(of, child, above | {process})
            for why in COSTS:
                _add(shares, rows, why, shares[Why.PROCESSES] * took / total * below.get(why, 0.0), its_rows.get(why, []))
    return shares, rows


def _threads_that_work(seen: pl.DataFrame, threads: pl.DataFrame) -> dict[int, int]:
    """For each thread the time in which it was not idle; without threads that are nearly always idle."""
    idle = seen.filter(pl.col("why").is_in([Why.IDLE.value, Why.THREADS.value])).group_by("thread").agg(pl.col("ns").sum())
    not_working = dict(idle.rows())
    spans = threads.filter(pl.col("thread").is_in(seen["thread"].unique().to_list())).select("thread", "elapsed_ns").rows()
    worked = {thread: elapsed - min(not_working.get(thread, 0), elapsed) for thread, elapsed in spans}
    return {thread: ns for thread, ns in worked.items() if ns > 0.05 * dict(spans)[thread]}


def _add(shares: dict[Why, float], rows: dict[Why, list[pl.DataFrame]], why: Why, share: float, of: list[pl.DataFrame]) -> None:
    if share > 0:
        shares[why] = min(shares[why] + share, 1.0)
        rows.setdefault(why, []).extend(of)


def _sum(rows: pl.DataFrame, why: Why) -> int:
    return int(rows.filter(pl.col("why") == why.value)["ns"].sum())


def holders(of: Waiting, waits: pl.DataFrame, why: Why) -> pl.DataFrame:
    """process, thread, caller, file, module, line, ns, ns_squared (the sum of each sample's square): the work, and the sleep, of other
    threads during these waits. The longest come first."""
    others_in = [of.seen.clear().with_columns(inside=pl.lit(0, pl.Int64))]
    for (process,), here in waits.partition_by("process", as_dict=True).items():
        waited = union(here["begin_ns"].to_numpy(), here["end_ns"].to_numpy())
        waiters = here.group_by("thread").agg(pl.col("ns").sum())
        others = of.of(int(process))
        costly = pl.col("why").is_null()
        if why is not Why.GIL:
            costly |= pl.col("why").is_in([Why.SLEEP.value, Why.IO.value, Why.OTHER.value])
        others = others.filter(costly)
        if len(waiters) == 1:
            others = others.filter(pl.col("thread") != waiters["thread"][0])
        inside = waited.within(others["begin_ns"].to_numpy(), others["end_ns"].to_numpy())
        others_in.append(others.with_columns(inside=pl.Series(inside, dtype=pl.Int64)).filter(pl.col("inside") > 0))
    held = pl.concat(others_in).group_by("process", "thread", "file", "module", "caller")
    return held.agg(pl.col("line").mode().min(), ns=pl.col("inside").sum(), ns_squared=(pl.col("inside").cast(pl.Float64) ** 2).sum()).sort(
        "ns", "process", "thread", "file", "caller", descending=[True, *[False] * 4]
    )


def blocked_loop(rows: pl.DataFrame) -> pl.DataFrame:
    """The waits in which a callback of an event loop itself waits."""
    return rows.filter("looped")


def loaders(of: Waiting, processes: list[int]) -> tuple[int, float]:
    """The number of workers that load data for these processes, and the part of their time in which they do not wait for work."""
    of_workers = of.seen.filter("loads")
    pairs = set(of_workers.select("process", "thread").unique().rows())
    workers = of.threads.filter("main", pl.col("parent").is_in(processes))
    workers = workers.filter(pl.Series([pair in pairs for pair in workers.select("process", "thread").rows()], dtype=pl.Boolean))
    elapsed = int(workers["elapsed_ns"].sum())
    idle = of_workers.filter(pl.col("why") == Why.IDLE.value, pl.col("process").is_in(workers["process"].to_list()))
    return len(workers), 1 - min(int(idle["ns"].sum()) / max(elapsed, 1), 1.0)
