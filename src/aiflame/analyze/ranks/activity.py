"""The activity of a rank over time: when it computed, when it copied, and single pieces of work with their context.

It comes from kernels, copies and gaps on devices; without devices from CPU samples and the time between them; without samples from the time
between calls that communicate.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import numpy as np
import polars as pl

from aiflame.analyze.spans import Spans, union
from aiflame.values import dataclass

Rule = Literal["devices", "samples", "calls"]


class Cause(IntEnum):
    """The activity of a rank that explains its lateness."""

    COMPUTE = 0
    COPY = 1
    DATA = 2
    """The rank waited for data."""
    LAUNCH = 3
    """A device waited for the next launch, or to begin the launched work."""
    HOST = 4
    """A device was idle while the program did something else."""
    WAIT = 5
    """The program was on no CPU: it slept, or waited for something."""
    UNKNOWN = 6


SAYS = {
    Cause.COMPUTE: "it computed longer",
    Cause.COPY: "it copied longer",
    Cause.DATA: "it waited for data",
    Cause.LAUNCH: "its device waited for launches",
    Cause.HOST: "its program did something else",
    Cause.WAIT: "it slept, or waited off the CPU",
    Cause.UNKNOWN: "its activity is not known",
}
SITES = {
    "cause": pl.Int64,
    "phase": pl.Int64,  # Phase, 0: none
    "layer": pl.String,
    "op": pl.String,
    "what": pl.String,  # kernel, function, or line of the program
}
ITEMS = {
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "site": pl.Int64,  # row of the sites
    "step": pl.Int64,  # -1: none
}


@dataclass(frozen=True, slots=True)
class Activity:
    rule: Rule
    computing: Spans
    copying: Spans
    """The time in which memory was copied, also during other work."""
    items: pl.DataFrame
    """ITEMS: all activities that took time, including gaps, in any order. Activities that overlap each count."""
    sites: pl.DataFrame
    """SITES"""


def taken_out(spans: Spans, other: Spans) -> Spans:
    """The parts of `spans` outside of `other`."""
    if not len(spans) or not len(other):
        return spans
    # At each edge, whether it is inside of either.
    edges = np.concatenate([spans.begin, spans.end, other.begin, other.end])
    inner = np.repeat([1, -1, 0, 0], [len(spans)] * 2 + [len(other)] * 2)
    outer = np.repeat([0, 0, 1, -1], [len(spans)] * 2 + [len(other)] * 2)
    order = np.argsort(edges, kind="stable")
    edges, kept = edges[order], (np.cumsum(inner[order]) > 0) & (np.cumsum(outer[order]) == 0)
    return union(edges[:-1][kept[:-1]], edges[1:][kept[:-1]])


def holes(spans: Spans, begin: int, end: int) -> Spans:
    """The parts of [begin, end) outside of `spans`."""
    return taken_out(union(np.array([begin]), np.array([end])), spans)
