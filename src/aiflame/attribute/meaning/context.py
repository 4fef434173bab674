"""Assigns a step, phase, layer, op and region to each launch, graph node, traced call and CPU sample.

Layer, op and mark follow from the stack alone, and are computed once for each stack (`layers`, `ops`, `phases.marks`). The other columns
depend on the time, and are computed for each item.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once, once_for
from aiflame.attribute.arrays.row_keys import by_time
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.backward import origins
from aiflame.attribute.meaning.compiling import AUTOTUNING
from aiflame.attribute.meaning.compiling import NAMES as COMPILERS
from aiflame.attribute.meaning.events import LATEST, call_items, forward_calls, ints, launch_items, mother_threads, node_items, sample_items
from aiflame.attribute.meaning.fused_kernels import kernel_origins
from aiflame.attribute.meaning.fused_split import Compiled, compiled, op_frames
from aiflame.attribute.meaning.layer_calls import layer_calls
from aiflame.attribute.meaning.layers import StackLayers, layers
from aiflame.attribute.meaning.ops import StackOps, ops
from aiflame.attribute.meaning.phases import Evidence, Marks, Phase, marks, phase_forest, phases
from aiflame.attribute.meaning.regions import Regions, regions
from aiflame.attribute.meaning.steps import DATA, OPTIMIZER, Seen, Steps, automatic_regions, steps
from aiflame.attribute.meaning.torch_frames import torch_frames
from aiflame.attribute.memory.metrics import is_of_memory
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.attribute.stacks.samples import VALUE
from aiflame.attribute.stacks.table import outermost_layers, stack_table
from aiflame.attribute.stacks.word_trie import word_trie
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.frame_words import is_backward
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

CONTEXT = ("step", "phase", "layer", "op", "region")
"""The columns of an item's meaning: `step` (-1: none), `phase` (Phase), and nodes of the forests of layers, ops and regions (0: none)."""
BRINGS = "brings"
"""A further column: the item copies data to a device for the next forward work, so its phase is data loading."""
MOTHER = "mother"
"""Beside them: the thread that it works for (see `events.mother_threads`)."""
_OF_SAMPLES = ("process", "thread", "id", "stack", "state", VALUE, "time_ns")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The items of a profile with their context, and the forests to whose nodes the columns refer."""

    launches: pl.DataFrame
    """process, id (of the launch), CONTEXT, BRINGS, MOTHER"""
    nodes: pl.DataFrame
    """process, node (made at a stack), CONTEXT: layer, op and phase at its capture"""
    samples: pl.DataFrame
    """process, thread, id, stack, state, value, time_ns, CONTEXT; in the order of the table"""
    forests: dict[str, Forest]
    """Forests of phases, layers, ops and regions."""
    compiled: Compiled
    """Its ops stand for all ops of a fused kernel until `fused_split` divides them."""
    steps: pl.DataFrame
    """The begin and end of each step (`steps.Steps.rows`)."""


@once
def of_devices(profile: Analysis) -> Meaning:
    """The context of launches and graph nodes."""
    launched = launch_items(profile).drop("api")
    captured_nodes = node_items(profile)
    items = launched if captured_nodes.is_empty() else pl.concat([launched, captured_nodes], how="diagonal", rechunk=True)
    profile.part(profile_steps, lambda analysis: _steps(analysis, items[: len(launched)]))
    classifier = _Classifier(profile)
    columns_of, regions_of = classifier.context(items, captured=np.arange(len(items)) >= len(launched))
    classified = items.hstack(columns_of)
    nodes = (
        classified[len(launched) :]
        if len(captured_nodes)
        else classified.clear().with_columns(node=pl.lit(None, captured_nodes.schema["node"]))
    )
    return classifier.used(
        Meaning(
            classified[: len(launched)],
            nodes,
            classified.clear(),
            classifier.forests(regions_of),
            classifier.compiled,
            classifier.steps.rows,
        )
    )


def used_samples(profile: Analysis, clock: int) -> None:
    """Frees the context of the samples of a clock, unless others share it. Blocks of memory may be millions, and few views need them."""
    if is_of_memory(clock):
        profile.release(of_samples.part(clock))
    else:
        profile.used(of_samples.part(clock))


def release_samples(profile: Analysis) -> None:
    """Frees the context of CPU samples."""
    for clock in clocks(profile).values():
        profile.release(of_samples.part(clock))


def of_calls(profile: Tables, of: pl.DataFrame) -> Meaning:
    """The context of only these traced calls (`process`, `id`), in `samples`, with their `id`."""
    items = call_items(profile, of)
    classifier = _Classifier(Analysis.of(profile))
    columns, regions_of = classifier.context(items, np.zeros(len(items), dtype=np.bool_), mother_threads(items, forward_calls(profile)))
    classified = items.hstack(columns)
    return classifier.used(
        Meaning(
            classified.clear(), classified.clear(), classified, classifier.forests(regions_of), classifier.compiled, classifier.steps.rows
        )
    )


@once_for
def of_samples(profile: Analysis, clock: int) -> Meaning:
    """The context of the CPU samples of one clock, or of the values of one of the profile's own metrics."""
    items = sample_items(profile, clock)
    classifier = _Classifier(profile)
    columns, regions_of = classifier.context(items, captured=np.zeros(len(items), dtype=np.bool_))
    classified = items.select(_OF_SAMPLES).hstack(columns.select(CONTEXT))
    return classifier.used(
        Meaning(
            classified.clear(), classified.clear(), classified, classifier.forests(regions_of), classifier.compiled, classifier.steps.rows
        )
    )


@once
def profile_steps(profile: Analysis) -> Steps:
    """The steps of all threads: from launches in programs that have some, otherwise from CPU samples."""
    return _steps(profile, launch_items(profile))


def _steps(profile: Analysis, launched: pl.DataFrame) -> Steps:
    samples = sample_items(profile).join(launched.select("process").unique(), on="process", how="anti")
    classifier = _Classifier(profile)
    both = [(launched, True), (samples, False)]
    return steps(profile, {key: seen for items, exact in both for key, seen in classifier.seen(items, exact).items()})


@dataclass(frozen=True)
class _Classifier:
    """Gives items their context, using tables of a profile's stacks and threads."""

    profile: Analysis

    def context(self, items: pl.DataFrame, captured: NDArray[np.bool_], mother: Ints | None = None) -> tuple[pl.DataFrame, Forest]:
        """CONTEXT, MOTHER and BRINGS of each item, and the forest of regions. `captured`: the item is a graph's node, which does not run
        when it is created. `mother`: the thread for which it works, if the items alone do not determine it. Regions that autograd's thread
        marks are placed within the regions of that thread."""
        process, thread, stack, time_ns, autograd = ints(items, "process", "thread", "stack", "time_ns", "autograd")
        mother = mother_threads(items) if mother is None else mother
        step = np.where(captured, -1, self.steps.of(process, mother, time_ns))
        # There may be ten million items, so only the needed columns are held.
        origin = replace(origins(self.profile, items, self._layers, self._ops), stack=stack[:0])
        _, group = np.unique(process << 32 | mother, return_inverse=True)
        evidence = Evidence(
            order=np.lexsort((time_ns, captured, group)),
            group=group << 1 | captured,
            time_ns=time_ns,
            static=self._marks.phase[self._node(process, stack)],
            backward=is_backward(autograd),
            layer=self._root(process, stack) > 0,
            op=origin.op > 0,
            step=step,
            anywhere=captured,
            region=self._automatic(process, mother, time_ns),
        )
        self.profile.release(torch_frames)  # layers and ops are computed now
        phase, brings = phases(evidence)
        of_step = self.steps.phase(process, step)
        phase = np.where((of_step > 0) & (phase == Phase.FORWARD), of_step, phase)
        around = np.where(mother != thread, self._regions.paths(process, mother, time_ns), 0)
        regions_of, region = self._regions.forest.within(around, self._regions.paths(process, thread, time_ns))
        op = np.where(origin.backward & (origin.op > 0), origin.op + len(self._ops.names) - 1, origin.op)
        fused = self.compiled.origins.of_stacks(process, stack)
        op = np.where(fused > 0, self.compiled.first - 1 + fused, op)
        layer, op = self._without_compilers(process, stack, items["gpu"].to_numpy(), origin.layer, op)
        columns = {"step": step, "phase": phase, "layer": layer, "op": op, "region": region}
        table = pl.DataFrame({name: column.astype(np.int32) for name, column in columns.items()})
        return table.with_columns(pl.Series(MOTHER, mother.astype(np.uint32)), pl.Series(BRINGS, brings)), regions_of

    def forests(self, regions_of: Forest) -> dict[str, Forest]:
        names = self._ops.names[1:]
        op = frame_table([Frame(name, Kind.OP) for name in (*names, *(f"{name} (backward)" for name in names), *COMPILERS.values())])[1:]
        op = pl.concat([op, op_frames(self.compiled.origins)])
        return {
            "phase": phase_forest(),
            "layer": self._layers.forest.with_roots(frame_table([Frame(name, Kind.LAYER) for name in COMPILERS.values()])[1:]),
            "op": Forest.of_frames(op),
            "region": regions_of,
        }

    @cached_property
    def compiled(self) -> Compiled:
        return compiled(self.profile, kernel_origins(self.profile), 2 * (len(self._ops.names) - 1) + len(COMPILERS))

    def used(self, meaning: Meaning) -> Meaning:
        """Returns the meaning, and frees the tables of stacks unless others share them."""
        for part in (stack_table, word_trie, layers, ops, regions, marks, kernel_origins, outermost_layers, layer_calls):
            self.profile.used(part)
        return meaning

    @property
    def steps(self) -> Steps:
        return profile_steps(self.profile)

    def seen(self, items: pl.DataFrame, exact: bool) -> dict[tuple[int, int], Seen]:
        process, thread, stack, time_ns, autograd, sequence = ints(items, "process", "thread", "stack", "time_ns", "autograd", "sequence")
        node = self._node(process, stack)
        static, root = self._marks.phase[node], self._root(process, stack)
        backward = (static == Phase.BACKWARD) | (is_backward(autograd) & np.isin(static, (0, Phase.FORWARD)))
        mother = mother_threads(items)
        key = process << 32 | mother
        # There may be ten million launches: if they are in order already, they are not copied.
        order = by_time(key, time_ns, time_ns)
        ordered = key if order is None else key[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(key)]).tolist()
        threads = {}
        for begin, end in pairwise([*first, len(key)]):
            rows = slice(begin, end) if order is None else order[begin:end]
            forward = root[rows] > 0
            threads[int(ordered[begin] >> 32), int(ordered[begin] & 0xFFFFFFFF)] = Seen(
                time_ns[rows],
                backward[rows],
                forward & ~backward[rows],
                self._marks.scaler[node[rows]],
                sequence[rows],
                stack[rows],
                root[rows],
                thread[rows] == mother[rows],
                exact,
            )
        return threads

    def _automatic(self, process: Ints, thread: Ints, time_ns: Ints) -> NDArray[np.int8]:
        """The phase of the automatic region in which a thread is."""
        phases_at = np.zeros(len(process), dtype=np.int8)
        for (of_process, of_thread), rows in automatic_regions(self.profile).partition_by("process", "thread", as_dict=True).items():
            here = np.flatnonzero((process == of_process) & (thread == of_thread))
            for name, phase in ((DATA, Phase.DATA), (OPTIMIZER, Phase.OPTIMIZER)):
                named = rows.filter((pl.col("name") == name) & (pl.col("end_ns") < LATEST))
                begin, end = named["begin_ns"].to_numpy(), np.maximum.accumulate(named["end_ns"].to_numpy())
                if len(begin):
                    at = np.searchsorted(begin, time_ns[here], side="right") - 1
                    phases_at[here[(at >= 0) & (time_ns[here] < end[np.maximum(at, 0)])]] = phase
        return phases_at

    def _without_compilers(self, process: Ints, stack: Ints, gpu: NDArray[np.bool_], layer: Ints, op: Ints) -> tuple[Ints, Ints]:
        """Layer and op of each item. Compilers and autotuners work for no layer, and everything that they run on a device is a trial."""
        if not self._ops.compiler.any():
            return layer, op
        mark = self._ops.stacks.at(self._ops.compiler, process, stack)
        mark = np.where(gpu & (mark > 0), AUTOTUNING, mark)
        first_layer, first_op = len(self._layers.forest.parent), 2 * (len(self._ops.names) - 1) + 1
        return np.where(mark > 0, first_layer - 1 + mark, layer), np.where(mark > 0, first_op - 1 + mark, op)

    def _root(self, process: Ints, stack: Ints) -> Ints:
        """The outermost layer of each stack, 0 if there is none."""
        return stack_table(self.profile).keys.at(outermost_layers(self.profile), process, stack)

    def _node(self, process: Ints, stack: Ints) -> Ints:
        return functions(self.profile).of_stacks(process, stack)

    @property
    def _marks(self) -> Marks:
        return marks(self.profile)

    @property
    def _layers(self) -> StackLayers:
        return layers(self.profile)

    @property
    def _ops(self) -> StackOps:
        return ops(self.profile)

    @property
    def _regions(self) -> Regions:
        return regions(self.profile)
