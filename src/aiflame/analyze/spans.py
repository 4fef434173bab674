"""Arithmetic on intervals of time. Whole numbers; each moment counts once."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Spans:
    """Intervals [begin, end), in the order of time, that neither overlap nor touch."""

    begin: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.begin)

    def total(self) -> int:
        return int((self.end - self.begin).sum())

    def before(self, moment: Ints) -> Ints:
        """The time that the spans cover before each moment."""
        if not len(self):
            return np.zeros(len(moment), dtype=np.int64)
        reached = np.concatenate([[0], np.cumsum(self.end - self.begin)])
        at = np.searchsorted(self.begin, moment, side="right")
        over = self.end[np.maximum(at - 1, 0)] - moment
        covered: Ints = reached[at] - np.where(at > 0, np.maximum(over, 0), 0)
        return covered

    def within(self, begin: Ints, end: Ints) -> Ints:
        """The time that the spans cover in each interval."""
        return self.before(np.maximum(begin, end)) - self.before(begin)


def union(begin: Ints, end: Ints) -> Spans:
    """The union of intervals in any order; those without length cover nothing."""
    long = end > begin
    if not long.all():
        begin, end = begin[long], end[long]
    if not len(begin):
        return Spans(begin, end)
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    reached = np.maximum.accumulate(end)
    first = np.append(True, begin[1:] > reached[:-1])
    last = np.append(first[1:], True)
    return Spans(begin[first], reached[last])


def gaps(spans: Spans) -> Spans:
    """The gaps between them."""
    return Spans(spans.end[:-1], spans.begin[1:])


def both(one: Spans, other: Spans) -> Spans:
    """The time that both cover."""
    moment = np.concatenate([one.begin, other.begin, one.end, other.end])
    step = np.repeat([1, -1], len(moment) // 2)
    order = np.lexsort((step, moment))  # ends first: spans that only touch do not overlap
    moment, deep = moment[order], np.cumsum(step[order])
    at = np.flatnonzero(deep == 2)
    return Spans(moment[at], moment[at + 1])


def without(one: Spans, other: Spans) -> Spans:
    """The time that only the first covers."""
    moment = np.concatenate([one.begin, one.end, other.begin, other.end])
    step = np.concatenate([np.repeat([1, -1], len(one)), np.repeat([-1, 1], len(other))])
    order = np.argsort(moment, kind="stable")
    moment, level = moment[order], np.cumsum(step[order])
    last = np.append(moment[1:] > moment[:-1], True)[: len(moment)]
    moment, level = moment[last], level[last]
    at = np.flatnonzero(level == 1)
    return union(moment[at], moment[at + 1])
