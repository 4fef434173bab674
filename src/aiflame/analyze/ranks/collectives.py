"""The collectives of a rank: calls and kernels in which all members of a group take part, and how those of different ranks are matched.

The n-th collective of a group is the same on all its members. A group is identified by its backend, its members, and the number of earlier
groups with these members, since each process has another handle for it.
"""

from __future__ import annotations

import hashlib
import re
from enum import IntEnum
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.device_join import DeviceJoin
from aiflame.analyze.labels import gathered
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.context import of_calls
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.meaning.steps import Steps
from aiflame.profile.schema.enums import CallBackend, CallKind
from aiflame.profile.schema.frame_words import is_backward_column
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


class Sort(IntEnum):
    """The kind of a communication call or kernel."""

    NONE = 0
    """No communication: initialization, bookkeeping."""
    MEETS = 1
    """A collective that no rank leaves before all have come: all-reduce, all-gather, barrier …"""
    ROOTED = 2
    """One member sends or receives: a broadcast, a reduction to one member. A late member delays the root, or members after it."""
    PAIR = 3
    """Between two ranks, or a wait for something that was begun before."""


_SORTS = (
    (Sort.MEETS, "all-reduce", r"allreduce|crossdevicereduce|multimem|(?:one|two)shot"),
    (Sort.MEETS, "reduce-scatter", r"reducescatter"),
    (Sort.MEETS, "all-gather", r"allgather"),
    (Sort.MEETS, "all-to-all", r"alltoall"),
    (Sort.MEETS, "barrier", r"barrier"),
    (Sort.ROOTED, "broadcast", r"bcast|broadcast"),
    (Sort.ROOTED, "reduce", r"reduce(?!local)"),
    (Sort.ROOTED, "gather", r"gather"),
    (Sort.ROOTED, "scatter", r"scatter"),
    (Sort.ROOTED, "scan", r"scan"),
    (Sort.PAIR, "send/receive", r"send|recv|probe|mrecv"),
    (Sort.PAIR, "wait", r"wait|fence"),
)
"""Words in a name, in lower case and reduced to letters; the first match decides."""
_BEGINS_ONLY = re.compile(r"MPI_I(?!nit|nfo|nter)[a-z]|MPI_.*_init(_c)?$")
"""Calls of MPI that return before anything is communicated: the wait takes the time."""
COMMUNICATES = (int(CallBackend.MPI), int(CallBackend.NCCL), int(CallBackend.TORCH))
NAMES = ["", *(name for _, name, _ in _SORTS)]
COLLECTIVES = {
    "group": pl.String,
    "number": pl.Int64,
    "name": pl.String,  # row of NAMES
    "meets": pl.Boolean,  # Sort.MEETS
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "bytes": pl.Int64,
    "thread": pl.Int64,  # process << 32 | row of `threads`
    "blocking": pl.Boolean,  # its thread was in it from begin to end
    "step": pl.Int64,  # -1: none
    "phase": pl.Int64,  # Phase in which it was begun; Communication if unknown
    "layer": pl.String,
}
_CALLS = ("process", "thread", "group", "sort", "bytes", "begin_ns", "end_ns", "blocking", "id", "enqueues")


@dataclass(frozen=True, slots=True)
class Communication:
    collectives: pl.DataFrame
    """COLLECTIVES, in the order of their begins."""
    pairs: pl.DataFrame
    """begin_ns, end_ns, thread and blocking of other communication: sends, receives, waits."""


def sort_of(name: str) -> tuple[Sort, str]:
    """The sort of a function or kernel by its name, and a readable name."""
    row = _row(name)
    return (_SORTS[row - 1][0], NAMES[row]) if row else (Sort.NONE, "")


def communication(join: DeviceJoin, size: int) -> Communication:
    """The communication of one rank. `size`: the number of processes in the job, 0 if unknown."""
    calls = _calls(join.profile, size)
    kernels = _Kernels.of(join)
    rows = _of_devices(join, calls, kernels) if len(kernels.begin) else _of_cpus(join.profile, calls)
    sorts = np.array([Sort.NONE, *(sort for sort, _, _ in _SORTS)])[rows["sort"].to_numpy()]
    collective = np.isin(sorts, (Sort.MEETS, Sort.ROOTED))
    rows = rows.with_columns(meets=pl.Series(sorts == Sort.MEETS), name=gathered(NAMES, rows["sort"]))
    collectives = rows.filter(pl.Series(collective)).sort("begin_ns", maintain_order=True)
    numbered = collectives.with_columns(number=pl.int_range(pl.len()).over("group"))
    return Communication(
        numbered.select(pl.col(name).cast(kind) for name, kind in COLLECTIVES.items()),
        rows.filter(pl.Series(sorts == Sort.PAIR)).select("begin_ns", "end_ns", "thread", "blocking"),
    )


def calls_that_meet(profile: Tables, size: int) -> pl.DataFrame:
    """process, group, number, begin_ns, end_ns of calls that no rank leaves before all have come, for all ranks in the profile.
    Asynchronous calls of torch.distributed are included, since their rows end when the work is done."""
    calls = _calls(profile, size)
    sorts = np.array([Sort.NONE, *(sort for sort, _, _ in _SORTS)])[calls["sort"].to_numpy()]
    collective = calls.with_columns(meets=pl.Series(sorts == Sort.MEETS)).filter(pl.Series(np.isin(sorts, (Sort.MEETS, Sort.ROOTED))))
    numbered = collective.with_columns(number=pl.int_range(pl.len()).over("process", "group"))
    return numbered.filter("meets", ~pl.col("enqueues")).select("process", "group", "number", "begin_ns", "end_ns")


@lru_cache(maxsize=1 << 14)
def _row(name: str) -> int:
    if _BEGINS_ONLY.match(name):
        name = "wait"
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((row for row, (_, _, words) in enumerate(_SORTS, 1) if re.search(words, plain)), 0)


def _calls(profile: Tables, size: int) -> pl.DataFrame:
    """_CALLS of all calls that communicate; `sort` is a row of NAMES; `enqueues`: it launches kernels, which then communicate."""
    names = profile.table("call_names").filter(pl.col("backend").is_in(COMMUNICATES))
    backend = names["backend"].to_list()
    # torch's own rows for work of NCCL or MPI are left out if the calls of these were traced.
    inner = {"nccl": CallBackend.NCCL, "mpi": CallBackend.MPI}
    sorts = [
        0 if of == CallBackend.TORCH and inner.get(name.partition(":")[0].lower()) in backend else _row(name)
        for of, name in names.select("backend", "name").rows()
    ]
    enqueues = (pl.col("backend") == int(CallBackend.NCCL)) | pl.col("name").str.to_lowercase().str.starts_with("nccl:")
    names = names.select("process", pl.col("id").alias("name"), "backend", enqueues=enqueues, sort=pl.Series(sorts, dtype=pl.Int64)).filter(
        pl.col("sort") > 0
    )
    rows = profile.scan("calls").join(names.lazy(), on=["process", "name"])
    groups = _groups(profile, size)
    backends = pl.col("backend").replace_strict({int(one): one.name.lower() for one in CallBackend}, default="", return_dtype=pl.String)
    unknown = pl.concat_str(backends, pl.lit(" [unknown group]"))
    return (
        rows.join(groups.lazy(), on=["process", "group"], how="left", maintain_order="left")
        .select(
            pl.col("process", "id").cast(pl.Int64),
            thread=pl.col("process").cast(pl.Int64) * (1 << 32) + pl.col("thread").cast(pl.Int64),
            group=pl.coalesce("key", unknown),
            sort="sort",
            bytes=pl.col("bytes").clip(upper_bound=LATEST).cast(pl.Int64),
            begin_ns=pl.col("begin_ns").clip(upper_bound=LATEST).cast(pl.Int64),
            end_ns=pl.col("end_ns").clip(upper_bound=LATEST).cast(pl.Int64),
            blocking=pl.col("kind") == int(CallKind.BLOCKING),
            enqueues="enqueues",
        )
        .with_columns(end_ns=pl.max_horizontal("begin_ns", "end_ns"))
        .sort("begin_ns", "process", "id")
        .select(_CALLS)
        .collect()
    )


def _groups(profile: Tables, size: int) -> pl.DataFrame:
    """process, group (row of `groups`), and `key`: a name of the group that is equal on all its members."""
    rows = profile.table("groups").sort("process", "id")
    members = [
        "all" if _is_all(raw, count, size) else _named(np.frombuffer(raw, dtype=np.uint32))
        for raw, count in rows.select("members", "size").rows()
    ]
    backends = {int(one): one.name.lower() for one in CallBackend}
    named = rows.select("process", group="id").with_columns(
        key=pl.Series(
            [f"{backends.get(of, '')} {who}" for of, who in zip(rows["backend"].to_list(), members, strict=True)], dtype=pl.String
        )
    )
    place = pl.int_range(pl.len()).over("process", "key")
    return named.with_columns(key=pl.when(place > 0).then(pl.concat_str("key", pl.lit(" #"), place + 1)).otherwise("key"))


def _is_all(members: bytes, count: int, size: int) -> bool:
    return not members or (count == size and sorted(np.frombuffer(members, dtype=np.uint32).tolist()) == list(range(size)))


def _named(members: NDArray[np.uint32]) -> str:
    """`0-3`, `0-12/4`; for other groups the first member, the number of members and a digest, since there may be thousands."""
    every = members.tolist()
    step = every[1] - every[0] if len(every) > 1 else 1
    if step > 0 and every == list(range(every[0], every[-1] + 1, step)):
        return f"{every[0]}-{every[-1]}" + (f"/{step}" if step > 1 else "") if len(every) > 1 else str(every[0])
    if len(every) <= 8:
        return ",".join(map(str, every))
    return f"{every[0]},{every[1]}… ({len(every)}, {hashlib.sha256(members.tobytes()).hexdigest()[:8]})"


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The executed collective kernels: those of each launching thread together, in the order of their launches."""

    begin: Ints
    end: Ints
    site: Ints
    step: Ints
    thread: Ints
    launched: Ints
    """Times of launches; if a launch is unknown, when the kernel began."""

    @staticmethod
    def of(join: DeviceJoin) -> _Kernels:
        site = join.work.executions["site"].to_numpy().astype(np.int64)
        row = np.flatnonzero((join.sites["family"] == COLLECTIVE).to_numpy()[site]) if len(site) else site
        executions = join.work.executions[row]
        begin, end, step = (executions[name].cast(pl.Int64).to_numpy() for name in ("start_ns", "end_ns", "step"))
        at = join.launches.rows(join.sites["process"].to_numpy()[site[row]], executions["launch"].cast(pl.Int64).to_numpy())
        launched = np.where(at >= 0, np.append(join.launches.begin_ns, 0)[at], begin)
        threads = join.launches.threads[join.launches.thread[at]] if len(join.launches.thread) else at
        thread = np.where(at >= 0, threads, -1)
        order = np.lexsort((begin, launched, thread))
        return _Kernels(*(column[order] for column in (begin, end, site[row], step, thread, launched)))


def _of_devices(join: DeviceJoin, calls: pl.DataFrame, kernels: _Kernels) -> pl.DataFrame:
    """Kernels give the times of communication; the calls that launched them give its group and its bytes."""
    first, last = _kernels_of_calls(calls, kernels)
    there = first >= 0
    # A call stands for all its kernels; a kernel whose call is unknown stands alone.
    covered = np.zeros(len(kernels.begin) + 1, dtype=np.int64)
    np.add.at(covered, first[there], 1)
    np.add.at(covered, last[there] + 1, -1)
    alone = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    names = join.sites["name"].to_list()
    layers, phases = _around(join, kernels)
    inside = pl.Series(there)
    of_calls_ = calls.filter(inside).with_columns(
        begin_ns=pl.Series(kernels.begin[first[there]]),
        end_ns=pl.Series(np.maximum.reduceat(np.append(kernels.end, 0), np.stack([first, last + 1], axis=1)[there].ravel())[::2])
        if there.any()
        else pl.Series([], dtype=pl.Int64),
        blocking=pl.lit(False),
        step=pl.Series(kernels.step[first[there]]),
        phase=pl.Series(phases[first[there]]),
        layer=gathered(layers, pl.Series("layer", first[there])),
    )
    of_kernels = pl.DataFrame(
        {
            "sort": np.array([_row(name) or _row("send") for name in names], dtype=np.int64)[kernels.site[alone]],
            "bytes": np.zeros(len(alone), dtype=np.int64),
            "begin_ns": kernels.begin[alone],
            "end_ns": kernels.end[alone],
            "thread": kernels.thread[alone],
            "blocking": np.zeros(len(alone), dtype=np.bool_),
            "step": kernels.step[alone],
            "phase": phases[alone],
            "layer": gathered(layers, pl.Series("layer", alone)),
        }
    ).with_columns(
        group=pl.lit("kernels ") + gathered([sort_of(name)[1] or name for name in names], pl.Series("group", kernels.site[alone]))
    )
    unmatched = calls.filter(~inside & ~pl.col("enqueues"))
    moment = unmatched["begin_ns"].to_numpy()
    thread = unmatched["thread"].to_numpy()
    others = unmatched.with_columns(
        step=pl.Series(Steps(join.steps).of(thread >> 32, thread & 0xFFFFFFFF, moment)),
        phase=pl.lit(int(Phase.COMMUNICATION), pl.Int64),
        layer=pl.lit(""),
    )
    columns = of_kernels.columns
    return pl.concat([part.select(columns) for part in (of_calls_, of_kernels, others)], how="vertical_relaxed")


def _kernels_of_calls(calls: pl.DataFrame, executed: _Kernels) -> tuple[Ints, Ints]:
    """The first and the last kernel that each call launched, -1: none. A kernel belongs to the call of its thread that began last before
    its launch; calls that launch nothing belong to a group of calls whose kernel the next call launches."""
    thread, begin = calls["thread"].to_numpy(), calls["begin_ns"].to_numpy()
    first, last = np.full(len(calls), -1), np.full(len(calls), -1)
    device = calls["enqueues"].to_numpy()
    for one in np.unique(executed.thread[executed.thread >= 0]).tolist():
        own = np.flatnonzero((thread == one) & device)
        kernels = np.flatnonzero(executed.thread == one)
        if not len(own) or not len(kernels):
            continue
        at = np.searchsorted(begin[own], executed.launched[kernels], side="right") - 1
        for side, order in ((first, slice(None, None, -1)), (last, slice(None))):
            has_call = at >= 0
            side[own[at[has_call][order]]] = kernels[has_call][order]
        follows = np.where(first[own] >= 0, np.arange(len(own)), len(own))
        nearest = np.minimum.accumulate(follows[::-1])[::-1]
        lent = (first[own] < 0) & (nearest < len(own))
        first[own[lent]], last[own[lent]] = first[own[nearest[lent]]], last[own[nearest[lent]]]
    return first, last


def _around(join: DeviceJoin, kernels: _Kernels) -> tuple[list[str], Ints]:
    """The layer of each collective kernel, and the phase in which it was launched: that of the work launched before it, since its own phase
    is always Communication."""
    site = join.work.executions["site"].to_numpy().astype(np.int64)
    phase_of = {"Data loading": 1, "Forward": 2, "Backward": 3, "Optimizer": 4, "Prefill": 7, "Decode": 8}
    of_site = np.array([phase_of.get(name, 0) for name in join.sites["phase"].to_list()], dtype=np.int64)
    at = join.launches.rows(join.sites["process"].to_numpy()[site], join.work.executions["launch"].cast(pl.Int64).to_numpy())
    in_phase = np.flatnonzero((at >= 0) & (of_site[site] > 0))
    when = join.launches.begin_ns[at[in_phase]]
    if (when[1:] < when[:-1]).any():
        order = np.argsort(when, kind="stable")
        in_phase, when = in_phase[order], when[order]
    before = np.searchsorted(when, kernels.launched, side="right") - 1
    layers = join.sites["layer"].to_list()
    if not len(in_phase):
        return [layers[one] for one in kernels.site.tolist()], np.full(len(kernels.site), int(Phase.COMMUNICATION))
    near = site[in_phase[np.maximum(before, 0)]]
    beside = np.where(before >= 0, near, kernels.site).tolist()
    layer_of = [layers[own] or layers[other] for own, other in zip(kernels.site.tolist(), beside, strict=True)]
    return layer_of, np.where(before >= 0, of_site[near], int(Phase.COMMUNICATION))


def _of_cpus(profile: Tables, calls: pl.DataFrame) -> pl.DataFrame:
    meaning = of_calls(profile, calls)
    context = meaning.samples.select("process", pl.col("id").cast(pl.Int64), "autograd", "step", "phase", "layer")
    rows = calls.join(context, on=["process", "id"], how="left", maintain_order="left")
    backward = is_backward_column() & pl.col("phase").is_in([int(Phase.COMMUNICATION), int(Phase.OTHER)])
    rows = rows.with_columns(
        pl.col("step").fill_null(-1),
        phase=pl.when(backward).then(int(Phase.BACKWARD)).otherwise("phase").cast(pl.Int64),
        layer=gathered(meaning.forests["layer"].paths(), rows["layer"].fill_null(0)),
    )
    return rows.with_columns(phase=pl.when(pl.col("phase") == int(Phase.OTHER)).then(int(Phase.COMMUNICATION)).otherwise("phase"))
