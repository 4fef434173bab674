"""Finds the ends of steps from the calls of optimizers: which optimizers take turns, and which ends a turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints, Mask

LONGEST_TURN = 20
"""Optimizers that are called more often than this in a row do not take turns within a step: each call ends one."""


def outermost(begin: Ints, end: Ints) -> Mask:
    """The calls, in the order of their begins, that are not inside another: an optimizer may call others."""
    reached = np.concatenate([[-1], np.maximum.accumulate(end)[:-1]])[: len(end)]
    mask: Mask = begin >= reached
    return mask


def ends_of_cycles(optimizer: NDArray[np.uint64]) -> tuple[Mask, bool]:
    """Given the optimizer of each call in the order of time: the calls that end a step, and whether only one optimizer counts.

    An optimizer that is called once, while others are called again and again, was only set up.
    """
    names, which, count = np.unique(optimizer, return_inverse=True, return_counts=True)
    once = (count == 1) & (count.max(initial=0) >= 3)
    kept = np.flatnonzero(~once[which])
    turn = which[kept]
    ends = np.zeros(len(optimizer), dtype=np.bool_)
    for begin, end in _segments(turn):
        ends[kept[begin:end][_ends(turn[begin:end])]] = True
    return ends, len(names) - int(once.sum()) == 1


def with_skipped(ends: Ints, backward: Ints, scaler: Ints) -> Ints:
    """Adds the ends of steps in which a gradient scaler did not call the optimizer: the scaler works after backward work, and no end
    follows before the next backward work."""
    what = np.concatenate([np.full(len(times), kind) for kind, times in enumerate((ends, backward, scaler))])
    when = np.concatenate([ends, backward, scaler])
    order = np.lexsort((what, when))
    what, when = what[order], when[order]
    last = np.flatnonzero(np.append(what[1:] != what[:-1], True)[: len(what)])  # the last call of each run
    run = np.concatenate([[0], what[last], [1]])
    skipped = (run[1:-1] == 2) & (run[:-2] == 1) & (run[2:] == 1)
    return np.sort(np.concatenate([ends, when[last][skipped] + 1]))


def _segments(turn: NDArray[np.integer]) -> list[tuple[int, int]]:
    """Splits the calls into segments, as short as possible, so that no optimizer has calls in two of them."""
    last = np.zeros(int(turn.max(initial=-1)) + 1, dtype=np.int64)
    last[turn] = np.arange(len(turn))
    reach = np.maximum.accumulate(last[turn])
    ends = (np.flatnonzero(reach == np.arange(len(turn))) + 1).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []


def _ends(turn: NDArray[np.integer]) -> Mask:
    """Marks the calls that end a turn: those of the optimizer whose first call is the latest."""
    end_of_run = np.append(turn[1:] != turn[:-1], True)[: len(turn)]
    names, first = np.unique(turn, return_index=True)
    if len(names) == 1 or len(turn) > LONGEST_TURN * int(end_of_run.sum()):
        return np.ones(len(turn), dtype=np.bool_)
    mask: Mask = end_of_run & (turn == names[np.argmax(first)])
    return mask
