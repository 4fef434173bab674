"""Steps of training and inference: the work that a program repeats, derived from its recorded work.

Training: a step ends where an optimizer's does; several optimizers that take turns make one step. Inference: a step is a call of the
model (`inference`), in older profiles of the outermost layer. JAX: a step is a call of the jitted function (`jit_calls`). Without a
clear repetition, there is no step.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.order import in_order
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.inference import hold_the_work, model_calls
from aiflame.attribute.meaning.jit_calls import jit_calls
from aiflame.attribute.meaning.model_calls import Calls, calls_by_launches, outermost_calls
from aiflame.attribute.meaning.optimizers import ends_of_cycles, outermost, with_skipped
from aiflame.profile.schema.enums import RegionApi
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

DOMAIN, OPTIMIZER, DATA = "aiflame", "optimizer", "data"
NO_NODE = 0xFFFFFFFF
"""Sequence number of nodes that accumulate gradients (AccumulateGrad): no forward code made them."""
INFERENCE = ("phase", "sequences", "tokens", "called_ns")
"""Of a step of inference: whether it is PREFILL or DECODE, how many tokens of how many sequences the model was given, and how long its
call took; each 0 where that is not known."""
_NAMED_STEP = r"^ProfilerStep#\d+$"
_XLA_STEP = "step"
"""The category of a step's region that JAX or a TPU recorded."""
Row = tuple[int, int, int]
"""Thread, begin and end of a step."""


@dataclass(frozen=True, slots=True)
class Steps:
    rows: pl.DataFrame
    """process, thread, step (counted from 0 in each process, by begin), begin_ns, end_ns, and INFERENCE"""

    def of(self, process: Ints, thread: Ints, time_ns: Ints) -> Ints:
        """The step at each moment of a thread, -1: none. A thread without steps has those of its process, if all these belong to one
        thread."""
        step_at = np.full(len(process), -1, dtype=np.int64)
        stepping = self.rows.partition_by("process", "thread", as_dict=True)
        for (of_process, of_thread), rows in stepping.items():
            others = [other for one, other in stepping if one == of_process and other != of_thread]
            here = process == of_process
            here = here & (thread == of_thread) if others else here
            begin, end, step = (rows[name].to_numpy() for name in ("begin_ns", "end_ns", "step"))
            at = np.searchsorted(begin, time_ns[here], side="right") - 1
            near = np.maximum(at, 0)
            step_at[here] = np.where((at >= 0) & (time_ns[here] < end[near]), step[near], -1)
        return step_at

    def phase(self, process: Ints, step: Ints) -> Ints:
        """The phase of each of these steps (-1: none), for steps of inference."""
        named = self.rows.filter(pl.col("phase") > 0).sort("process", "step")
        if named.is_empty():
            return np.zeros(len(step), dtype=np.int64)
        key, wanted = (rows[0].astype(np.int64) << 32 | rows[1] for rows in (named.select("process", "step").to_numpy().T, (process, step)))
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        return np.where((step >= 0) & (key[at] == wanted), named["phase"].to_numpy()[at], 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """Items of a thread and of the threads that work for it, in the order of time: launches, or CPU samples in a program without
    launches."""

    time_ns: Ints
    backward: Mask
    layer: Mask
    scaler: Mask
    sequence: Ints
    stack: Ints
    root: Ints
    """The outermost layer of its stack, 0: none."""
    own: Mask
    """True for items of the thread itself."""
    exact: bool
    """True for launches, of which none is missing."""

    def within(self, low: int, high: int) -> slice:
        """The items later than `low`, up to `high`."""
        begin, end = np.searchsorted(self.time_ns, (low, high), side="right").tolist()
        return slice(begin, end)


def steps(profile: Tables, seen: dict[tuple[int, int], Seen]) -> Steps:
    """`seen`: for each process and thread."""
    marked, named = automatic_regions(profile), named_steps(profile)
    columns = ("process", "thread", "begin_ns", "end_ns", *INFERENCE)
    tables = [pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))]
    for process in sorted({process for process, _ in seen} | set(marked["process"]) | set(named["process"])):
        here = {thread: of for (one, thread), of in seen.items() if one == process}
        own = marked.filter(process=process)
        launches_tell_all = any(of.exact for of in here.values())
        calls = {} if launches_tell_all else outermost_calls(profile, process)
        rows = named.filter(process=process).drop("process")
        rows = _table(_training(own, here, calls)) if rows.is_empty() else rows
        if rows.is_empty() and not any(of.backward.any() for of in here.values()):
            rows = _inference(profile, process, here, calls)
            rows = _jitted(profile, process, here) if rows.is_empty() else rows
        tables.append(rows.filter(pl.col("begin_ns") < pl.col("end_ns")).with_columns(process=pl.lit(process, dtype=pl.Int64)))
    table = pl.concat(tables, how="diagonal").with_columns(pl.col(*INFERENCE).fill_null(0))
    number = pl.int_range(pl.len()).over("process").alias("step")
    numbered = in_order(in_order(table, "process", "begin_ns", "thread").with_columns(number), "process", "thread", "begin_ns")
    return Steps(numbered.select("process", "thread", "step", "begin_ns", "end_ns", *INFERENCE))


@once
def automatic_regions(profile: Analysis) -> pl.DataFrame:
    """process, thread, name, payload, begin_ns, end_ns of the regions that aiflame itself recorded. A region without an end has not ended
    yet."""
    columns = {"process": pl.Int64, "thread": pl.Int64, "name": pl.String, "payload": pl.UInt64, "begin_ns": pl.Int64, "end_ns": pl.Int64}
    if not profile.has("regions"):
        return pl.DataFrame(schema=columns)
    ends = profile.scan("region_ends").group_by("process", pl.col("region").alias("id")).agg(pl.col("end_ns").min())
    return (
        profile.scan("regions")
        .filter((pl.col("api") == int(RegionApi.AUTOMATIC)) & (pl.col("domain") == DOMAIN) & pl.col("name").is_in([OPTIMIZER, DATA]))
        .join(ends, on=["process", "id"], how="left")
        .with_columns(pl.col("end_ns").fill_null(LATEST), pl.col("begin_ns").clip(upper_bound=LATEST))
        .with_columns(pl.col("end_ns").clip("begin_ns", LATEST))
        .select(pl.col(name).cast(kind) for name, kind in columns.items())
        .sort("process", "thread", "begin_ns")
        .collect()
    )


@once
def named_steps(profile: Analysis) -> pl.DataFrame:
    """process, thread, begin_ns, end_ns of the steps that torch's or XLA's profiler named in an imported trace."""
    columns = dict.fromkeys(("process", "thread", "begin_ns", "end_ns"), pl.Int64)
    if not profile.has("regions"):
        return pl.DataFrame(schema=columns)
    ends = profile.scan("region_ends").group_by("process", pl.col("region").alias("id")).agg(pl.col("end_ns").min())
    torch = (pl.col("api") == int(RegionApi.TORCH)) & pl.col("name").str.contains(_NAMED_STEP)
    xla = (pl.col("api") == int(RegionApi.XLA)) & (pl.col("category") == _XLA_STEP)
    named = profile.scan("regions").filter(torch | xla)
    moments = pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST)
    rows = named.join(ends, on=["process", "id"]).with_columns(moments).select(pl.col(name).cast(kind) for name, kind in columns.items())
    return rows.sort("process", "thread", "begin_ns").collect()


def _training(marked: pl.DataFrame, seen: dict[int, Seen], calls: dict[int, Calls]) -> list[Row]:
    bounds: list[Row] = []
    for (thread,), rows in (
        marked.filter(pl.col("name") == OPTIMIZER, pl.col("end_ns") < LATEST).partition_by("thread", as_dict=True).items()
    ):
        rows = rows.filter(pl.Series(outermost(rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())))
        data = marked.filter(name=DATA, thread=thread)["begin_ns"].to_numpy()
        loop = _Loop(seen.get(thread, _NOTHING), calls.get(thread, Calls.none()), data)
        bounds += [(thread, begin, end) for begin, end in loop.steps(rows["payload"].to_numpy(), rows["end_ns"].to_numpy())]
    return bounds


@dataclass(frozen=True, slots=True)
class _Loop:
    """One thread that trains."""

    seen: Seen
    calls: Calls
    data: Ints
    """The begins of waits for data."""

    def steps(self, optimizer: NDArray[np.uint64], ended: Ints) -> list[tuple[int, int]]:
        kept, sole = ends_of_cycles(optimizer)
        ends = ended[kept]
        if not len(ends):
            return []
        works = self._works(ends)
        if works.mean() >= 0.5:
            ends = ends[works]
        elif self.seen.exact and len(ends) < 3:
            return []
        if sole:
            backward, scaler = self.seen.time_ns[self.seen.backward], self.seen.time_ns[self.seen.scaler]
            ends = with_skipped(ends, backward, scaler)
        late = self.seen.time_ns[self.seen.backward]
        unfinished = late[late > ends[-1]]
        if len(unfinished):
            ends = np.append(ends, unfinished[-1] + 1)
        return self._begun(ends, whole=len(ends) - (len(unfinished) > 0))

    def _works(self, ends: Ints) -> Mask:
        """For each end, True if there is backward work, or a call of a layer that prepares some, since the previous end."""
        backward = self.seen.time_ns[self.seen.backward]
        graded = self.calls.end_ns[self.calls.graded]
        many = np.searchsorted(np.sort(np.concatenate([backward, graded])), ends, side="right")
        return np.diff(many, prepend=0) > 0

    def _begun(self, ends: Ints, whole: int) -> list[tuple[int, int]]:
        """A step begins where the previous one ended, but after an evaluation in between: forward work whose autograd nodes no backward
        work of the step uses, if there is more of it than in other steps. (A teacher's forward pass, or preprocessing of inputs, is in all
        steps.) `whole`: the number of steps that ended."""
        begins = [-1, *ends[:-1].tolist()]
        lead = [self._evaluated(begin, end, step < whole) for step, (begin, end) in enumerate(zip(begins, ends.tolist(), strict=True))]
        if whole > 1:
            usual = sorted(map(len, lead[:whole]))[(whole - 1) // 2]
        else:  # no step to compare with: an evaluation is then a pass through the whole model
            usual = len(lead[0]) if 2 * len(lead[0]) < self._layer_works(ends[0]) else 0
        bounds, last = [], -1
        for times, end in zip(lead, ends.tolist(), strict=True):
            over = len(times) - usual
            begin = self._first_work(int(times[over - 1]) if over > 0 else -1, end) if over > 0 or last < 0 else last
            bounds.append((begin, end))
            last = end
        return bounds

    def _evaluated(self, low: int, high: int, whole: bool) -> Ints:
        """Times of work of layers without use for backward work, before the first such work with a use."""
        if len(self.calls.end_ns):
            recorded = slice(*np.searchsorted(self.calls.end_ns, (low, high), side="right").tolist())
            graded = self.calls.graded[recorded]
            return self.calls.end_ns[recorded][: int(np.argmax(graded))] if graded.any() else self.calls.end_ns[:0]
        here = self.seen.within(low, high)
        backward, sequence, time_ns = self.seen.backward[here], self.seen.sequence[here], self.seen.time_ns[here]
        used = sequence[backward & (sequence != NO_NODE)] if whole else self._nodes_before(here.start) + 1
        layer = self.seen.layer[here]
        if not self.seen.exact or not (used > 0).any() or not layer.any():
            return time_ns[:0]
        forward = sequence[layer]
        return time_ns[layer][: int(np.argmax(forward >= used.min()))]

    def _layer_works(self, high: int) -> int:
        """The number of pieces of work for layers up to a moment, counted as `_evaluated` counts."""
        if len(self.calls.end_ns):
            return int(np.searchsorted(self.calls.end_ns, high, side="right"))
        return int(self.seen.layer[self.seen.within(-1, high)].sum())

    def _nodes_before(self, item: int) -> Ints:
        """The number of the newest node before the item."""
        numbers = self.seen.sequence[:item]
        numbers = numbers[numbers != NO_NODE]
        return np.array([numbers.max()]) if len(numbers) else numbers

    def _made_nodes(self, here: slice) -> Ints:
        """Times of forward work that the backward work uses which ends this stretch; there may be no layers."""
        backward, sequence = self.seen.backward[here], self.seen.sequence[here]
        used = sequence[backward & (sequence != NO_NODE)]
        using = backward if not (used > 0).any() else backward | (sequence >= used.min())
        return self.seen.time_ns[here][using]

    def _first_work(self, low: int, high: int) -> int:
        """The begin of a step that follows no other: its first wait for data, otherwise its first work of a layer."""
        here = self.seen.within(low, high)
        layer = self.seen.time_ns[here][self.seen.layer[here]]
        called = self.calls.begin_ns[slice(*np.searchsorted(self.calls.begin_ns, (low, high), side="left").tolist())]
        firsts = [int(times[0]) for times in (called, layer, self._made_nodes(here)) if len(times)]
        first = min(firsts, default=high)
        waits = self.data[(self.data > low) & (self.data <= first)]
        return int(waits[-1]) if len(waits) else first


def _table(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(("thread", "begin_ns", "end_ns"), pl.Int64), orient="row")


def _inference(profile: Tables, process: int, seen: dict[int, Seen], calls: dict[int, Calls]) -> pl.DataFrame:
    """The repeated calls of one model by one thread, with INFERENCE. There may be millions."""
    recorded = model_calls(profile, process)
    if not recorded:
        return _table(_by_layers(seen, calls))
    repeating = {thread: repeated for thread, of in recorded.items() if len(repeated := of.repeated())}
    if len(repeating) != 1:
        return _table([])
    ((thread, of),) = repeating.items()
    phase = of.phases()
    end = of.ends_of_steps(phase)
    if not hold_the_work(of.begin_ns, end, _work(seen)):
        return _table([])
    of_steps = {"begin_ns": of.begin_ns, "end_ns": end, "phase": phase, "sequences": of.sequences, "tokens": of.tokens}
    return pl.DataFrame({**of_steps, "called_ns": of.end_ns - of.begin_ns}).select(pl.lit(thread, dtype=pl.Int64).alias("thread"), pl.all())


def _by_layers(seen: dict[int, Seen], calls: dict[int, Calls]) -> list[Row]:
    """The same for profiles without recorded calls of models: from calls that made nodes, or from launches."""
    if calls:
        repeated = {thread: of.repeated() for thread, of in calls.items()}
    else:
        repeated = {
            thread: calls_by_launches(of.time_ns[of.own], of.stack[of.own], of.root[of.own]).repeated()
            for thread, of in seen.items()
            if of.exact and (of.root > 0).any()
        }
    if len(repeated) != 1:
        return []
    ((thread, repetition),) = repeated.items()
    return [(thread, begin, end) for begin, end in zip(repetition.begin_ns.tolist(), repetition.end_ns.tolist(), strict=True)]


def _jitted(profile: Tables, process: int, seen: dict[int, Seen]) -> pl.DataFrame:
    """The repeated calls of one jitted function by one thread."""
    repeating = {thread: bounds for thread, of in jit_calls(profile, process).items() if len((bounds := of.steps())[0])}
    if len(repeating) != 1:
        return _table([])
    ((thread, (begin, end)),) = repeating.items()
    if not hold_the_work(begin, end, _work(seen)):
        return _table([])
    return pl.DataFrame({"begin_ns": begin, "end_ns": end}).select(pl.lit(thread, dtype=pl.Int64).alias("thread"), pl.all())


def _work(seen: dict[int, Seen]) -> Ints:
    """The times of the process's work."""
    return np.concatenate([_INTS, *(items.time_ns for items in seen.values())])


_INTS, _BOOLS = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
_NOTHING = Seen(_INTS, _BOOLS, _BOOLS, _BOOLS, _INTS, _INTS, _INTS, _BOOLS, exact=False)
