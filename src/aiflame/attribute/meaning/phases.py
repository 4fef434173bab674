"""Finds the phase of work: data loading, forward (in inference: prefill, decode), backward, optimizer, communication."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.forest import Forest
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass


class Phase(IntEnum):
    """The phases, in the order in which a step has them; 0: not decided yet."""

    DATA = 1
    FORWARD = 2
    BACKWARD = 3
    OPTIMIZER = 4
    COMMUNICATION = 5
    OTHER = 6
    PREFILL = 7
    """Forward work of a step of inference that reads prompts."""
    DECODE = 8
    """Forward work of a step of inference that computes the next token of each sequence."""


NAMES = {
    Phase.DATA: "Data loading",
    Phase.FORWARD: "Forward",
    Phase.BACKWARD: "Backward",
    Phase.OPTIMIZER: "Optimizer",
    Phase.COMMUNICATION: "Communication",
    Phase.OTHER: "Other",
    Phase.PREFILL: "Prefill",
    Phase.DECODE: "Decode",
}


def phase_forest() -> Forest:
    """A forest with a frame for each phase; the node of a phase is its number."""
    return Forest.of_frames(frame_table([Frame(NAMES[phase], Kind.PHASE) for phase in Phase])[1:])


_SCALER = r"(^|/)torch/(cuda/)?amp/grad_scaler\.py$"
_PYTHON: tuple[tuple[Phase, str, str], ...] = (
    (Phase.FORWARD, r"(^|/)torch/nn/modules/module\.py$", r"(^|\.)_?(wrapped_)?_?call_impl$"),
    (Phase.BACKWARD, r"(^|/)torch/autograd/__init__\.py$", r"^(backward|grad)$"),
    (Phase.BACKWARD, r"(^|/)torch/autograd/graph\.py$", r"^_engine_run_backward$"),
    (Phase.BACKWARD, r"(^|/)torch/autograd/function\.py$", r"(^|\.)BackwardCFunction\.apply$"),
    (Phase.BACKWARD, r"(^|/)torch/_tensor\.py$", r"(^|\.)backward$"),
    (Phase.OPTIMIZER, r"(^|/)torch/optim/", r""),
    (Phase.OPTIMIZER, r"(^|/)torch/distributed/optim/", r"(^|\.)(step|zero_grad)$"),
    (Phase.OPTIMIZER, r"(^|/)torch/nn/utils/clip_grad\.py$", r""),
    (Phase.OPTIMIZER, r"(^|/)torch/nn/modules/module\.py$", r"(^|\.)zero_grad$"),
    (Phase.OPTIMIZER, _SCALER, r"(^|\.)(step|_maybe_opt_step|unscale_|update)$"),
    (Phase.DATA, r"(^|/)torch/utils/data/", r""),
    (Phase.COMMUNICATION, r"(^|/)torch/distributed/(distributed_c10d|c10d_logger|_functional_collectives)\.py$", r""),
    (Phase.COMMUNICATION, r"(^|/)torch/distributed/(nn/functional\.py$|fsdp/|_composable/|algorithms/)", r""),
)
"""Python functions that mark a phase: file, name. Work inside belongs to that phase, unless a function further inside marks another one."""
_NATIVE: tuple[tuple[Phase, str], ...] = (
    (Phase.BACKWARD, r"^torch::autograd::(python::Python)?Engine::|^THPEngine_run_backward|^autograd::engine::"),
    (Phase.BACKWARD, r"^transpose\(jvp\)$|^gradient_tape$"),
    (Phase.COMMUNICATION, r"^c10d::(Reducer|ProcessGroup|Work|ops|Backend)"),
)
_SCALER_ENDS = r"(^|\.)(step|update)$"
_NOTHING_YET = r"(^|\.)(__init__|<module>|add_param_group|state_dict|load_state_dict)$"
"""Functions that do not mark a phase: an optimizer is created, saved or loaded; a file is imported."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Phases from stacks alone, for each node of the trie of functions."""

    phase: NDArray[np.int8]
    """0: none."""
    scaler: Mask
    """Stacks in GradScaler.step or update: a step of an optimizer ends here, even if the scaler skips it."""


@once
def marks(profile: Analysis) -> Marks:
    """Phases by the innermost function that marks one; in the backward pass, forward work is recomputation."""
    trie = functions(profile)
    marked, scaler = _functions(trie.frames)
    of_node = marked[trie.frame]
    of_node[: trie.processes + 1] = 0
    inner = _nearest(trie, of_node, of_node > 0)
    outer = _nearest(trie, of_node, (of_node > 0) & (of_node != Phase.FORWARD))
    kept = (inner == Phase.FORWARD) & np.isin(outer, (Phase.BACKWARD, Phase.DATA))
    return Marks(np.where(kept, outer, inner), nodes.nearest(trie.parent, scaler[trie.frame]) >= 0)


def _nearest(trie: Functions, phase: NDArray[np.int8], mark: Mask) -> NDArray[np.int8]:
    at = nodes.nearest(trie.parent, mark)
    return np.where(at >= 0, phase[at], np.int8(0))


def _functions(frames: pl.DataFrame) -> tuple[NDArray[np.int8], Mask]:
    """For each function the phase that it marks, and whether it belongs to the scaler."""
    python = pl.col("kind") == int(Kind.PYTHON)
    native = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])
    file = pl.when(~pl.col("name").str.contains(_NOTHING_YET)).then("file").otherwise(pl.lit(""))
    marked = pl.lit(0)
    for phase, where, which in reversed(_PYTHON):
        marked = pl.when(python & file.str.contains(where) & _named(which)).then(int(phase)).otherwise(marked)
    for phase, which in _NATIVE:
        marked = pl.when(native & pl.col("name").str.contains(which)).then(int(phase)).otherwise(marked)
    scaler = python & file.str.contains(_SCALER) & pl.col("name").str.contains(_SCALER_ENDS)
    columns = frames.lazy().select(phase=marked.cast(pl.Int8), scaler=scaler).collect()
    return columns["phase"].to_numpy().copy(), columns["scaler"].to_numpy()


def _named(pattern: str) -> pl.Expr:
    return pl.lit(True) if not pattern else pl.col("name").str.contains(pattern)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about each item (a launch, a graph's node or a CPU sample) that determine its phase."""

    order: Ints
    """The items in the order of time, those of a thread together with those of the threads that work for it."""
    group: Ints
    """The number of this group of threads."""
    time_ns: Ints
    static: NDArray[np.int8]
    """Marks.phase of its stack."""
    backward: Mask
    """Work of a backward node."""
    layer: Mask
    op: Mask
    step: Ints
    """The step, -1: none."""
    anywhere: Mask
    """Nodes of graphs: they were captured outside of steps, but run inside."""
    region: NDArray[np.int8]
    """The phase of the automatic region around it: DATA, OPTIMIZER, or 0."""


def phases(evidence: Evidence) -> tuple[NDArray[np.int8], Mask]:
    """The phase of each item; and whether the item is a copy to a device that brings data for the next forward work."""
    sure = evidence.static.copy()
    sure[(sure == 0) & (evidence.region > 0)] = evidence.region[(sure == 0) & (evidence.region > 0)]
    sure[evidence.backward & np.isin(sure, (0, Phase.FORWARD))] = Phase.BACKWARD
    sure[(sure == 0) & evidence.layer] = Phase.FORWARD
    before, after = _neighbours(evidence, np.where(np.isin(sure, (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)), sure, 0))
    open_ = sure == 0
    inside = (evidence.step >= 0) | evidence.anywhere
    loss = open_ & inside & evidence.op & (before != Phase.BACKWARD) & ((evidence.step >= 0) | (before == Phase.FORWARD))
    brings = open_ & inside & (before != Phase.FORWARD) & ((after == Phase.FORWARD) | (before != Phase.BACKWARD))
    return np.where(loss, np.int8(Phase.FORWARD), np.where(open_, np.int8(Phase.OTHER), sure)), brings


def _neighbours(evidence: Evidence, sure: NDArray[np.int8]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """For each item, the phases of the nearest items before and after it, on its thread and in its step, whose phase is certain."""
    order, size = evidence.order, len(evidence.order)
    has_phase, step, group = sure[order] > 0, evidence.step[order], evidence.group[order]
    place = np.arange(size)
    last = np.maximum.accumulate(np.where(has_phase, place, -1))
    first = np.minimum.accumulate(np.where(has_phase, place, size)[::-1])[::-1]
    phases = []
    for at in (last, first):
        near = np.clip(at, 0, max(size - 1, 0))
        fits = (at == near) & (step[near] == step) & (group[near] == group) if size else np.zeros(0, dtype=np.bool_)
        phase = np.zeros(size, dtype=np.int8)
        phase[order] = np.where(fits, sure[order][near], 0) if size else phase
        phases.append(phase)
    return phases[0], phases[1]
