"""Finds the op of each stack: `aten::addmm`.

The op is the innermost one of the stack, as in torch.profiler's self times: `linear` calls `addmm`, and its time counts for `addmm`. The op
that the program itself called is the outermost one inside the innermost Python function. Overloads are left out.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.compiling import AUTOTUNING, COMPILING
from aiflame.attribute.meaning.torch_frames import TorchFrames, torch_frames
from aiflame.attribute.stacks.table import StackKeys
from aiflame.values import dataclass

_ENDS = -1
"""Marks a frame at which the op outside of it ends."""


class Where(IntEnum):
    """The position of a stack relative to torch's backward pass."""

    FORWARD = 0
    """not in the backward pass"""
    ENGINE = 1
    """in the engine, between its nodes: sums of gradients, hooks"""
    NODE = 2
    """in a node"""
    RECOMPUTED = 3
    """in a module that the backward pass calls: activation checkpointing, functions whose backward calls modules"""


@dataclass(frozen=True, slots=True)
class StackOps:
    names: list[str]
    """The name of each op; op 0 means none, and has an empty name."""
    stacks: StackKeys
    op: Ints
    """For each row of `stacks` the op that ran, as a row of `names`."""
    called: Ints
    """The op that Python called."""
    node: Ints
    """For stacks in a node of the backward pass, the forward op that made the node."""
    where: Ints
    """Where"""
    compiler: Ints
    """AUTOTUNING or COMPILING if such a compiler called the op; otherwise 0."""

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The op of each stack, 0 if the profile has no such stack."""
        return self.at(self.op, self.places(process, stack))

    def places(self, process: Ints, stack: Ints) -> Ints:
        """The row of each stack, -1 if the profile has no such stack."""
        return self.stacks.find(process, stack)

    @staticmethod
    def at(value: Ints, places: Ints) -> Ints:
        """The column's value at these rows, 0 for row -1."""
        return np.append(value, 0)[places]


@once
def ops(profile: Analysis) -> StackOps:
    """The op of every stack of the profile."""
    frames = torch_frames(profile)
    words = frames.words
    boundary = frames.layer | frames.engine | frames.in_node | frames.imports
    begins = np.where(frames.op > 0, frames.op, np.where(boundary, _ENDS, 0))
    op = words.nearest(begins)
    # Python called an op if only native code is between the op and a Python frame or another boundary.
    outer = nodes.nearest(words.parent, (begins != 0) | frames.python, strict=True)
    first = (frames.op > 0) & ((outer < 0) | (frames.op[outer] == 0) | frames.python[outer])
    called = words.nearest(np.where(first, frames.op, np.where(boundary, _ENDS, 0)))
    node = words.nearest(np.where(frames.node > 0, frames.node, np.where(boundary, _ENDS, 0)))
    tunes, compiles = (words.nearest(np.where(frames.compiler == mark, mark, 0)) for mark in (AUTOTUNING, COMPILING))
    compiler = np.where(tunes > 0, tunes, compiles)
    columns = (np.maximum(value, 0)[1:] for value in (op, called, node, _where(frames), compiler))
    return StackOps(frames.names, words.stacks.keys, *columns)


def _where(frames: TorchFrames) -> Ints:
    words = frames.words
    backward = frames.engine | frames.in_node
    plain = np.where(frames.layer, 4, np.where(frames.in_node, int(Where.NODE), np.where(frames.engine, int(Where.ENGINE), 0)))
    nearest = words.nearest(plain)
    inside = nodes.nearest(words.parent, backward) >= 0
    return np.where(nearest == 4, np.where(inside, int(Where.RECOMPUTED), int(Where.FORWARD)), nearest)
