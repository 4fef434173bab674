"""Calls of a thread that end after the call around them, as pieces that lie within each other.

A context manager's `__enter__` begins an op and returns; the op runs on, and ends in `__exit__`. No stack has both as they are: one of the
two is divided at the moment where it would cross the other. Functions of Python yield to ops, which stay whole: `__enter__` has a piece
before the op and one within it. Of two calls that do not yield, the later one is divided where the earlier one ends. Each call
keeps its time, and at each moment one of them runs.
"""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.nesting import Nest, in_order, nest
from aiflame.values import dataclass

AGAIN = (1 << 32) - 1
"""The number of a call's pieces behind its first."""
_ROUNDS = 6
_DEEPEST = 500
"""So many calls around a call are looked at."""
_MOST_MORE = 100_000
"""So many pieces more than calls, or as many as there are calls; more crossings than these are cut (a damaged trace)."""


@dataclass(frozen=True, slots=True)
class Pieces:
    row: Whole
    """The given call of each piece."""
    begin: Whole
    end: Whole
    again: Mask
    """True for all pieces of a call but the first."""
    divided: int
    """Calls of several pieces."""


def without_overlaps(thread: Whole, begin: Whole, end: Whole, yields: Mask) -> Pieces:
    """The calls, in their order, and behind them further pieces of those that are divided. `yields`: functions of Python."""
    row, most = np.arange(len(begin)), len(begin) + max(len(begin), _MOST_MORE)
    begin, end, again = begin.copy(), end.copy(), np.zeros(len(begin), dtype=bool)
    for _round in range(_ROUNDS):
        track = thread[row]
        order = np.arange(len(row)) if in_order(track, begin, end) else np.lexsort((-end, begin, track))
        nested = nest(track[order], begin[order], end[order])
        if not nested.cut:
            break
        piece, at = _crossings(nested, begin[order], end[order], yields[row[order]], most - len(row))
        if not len(piece):
            break
        piece = order[piece]
        # A piece with several crossings becomes several: each ends where the next one begins.
        sort = np.lexsort((at, piece))
        piece, at = piece[sort], at[sort]
        last = np.append(piece[1:] != piece[:-1], True)
        until = np.where(last, end[piece], np.append(at[1:], 0))
        first = np.append(True, last[:-1])
        end[piece[first]] = at[first]
        row, begin, end = np.append(row, row[piece]), np.append(begin, at), np.append(end, until)
        again = np.append(again, np.ones(len(piece), dtype=bool))
    return Pieces(row, begin, end, again, len(np.unique(row[again])))


def _crossings(nested: Nest, begin: Whole, end: Whole, yields: Mask, most: int) -> tuple[Whole, Whole]:
    """The pieces to divide, and where: each pair once, inside of the piece. None, if there are more than `most`."""
    piece: list[Whole] = [np.zeros(0, dtype=np.int64)]
    place: list[Whole] = [np.zeros(0, dtype=np.int64)]
    crossing = np.flatnonzero(nested.end < end)
    around, since = nested.parent[crossing].astype(np.int64), begin[crossing]
    for _depth in range(_DEEPEST):
        inside = around >= 0
        crossing, around, since = crossing[inside], around[inside], since[inside]
        if not len(crossing):
            break
        over = end[around] < end[crossing]
        gives_way = over & yields[around] & ~yields[crossing]
        piece.append(around[gives_way])
        place.append(since[gives_way])
        divided = over & ~yields[around]
        piece.append(crossing[divided])
        place.append(end[around[divided]])
        most -= len(piece[-1]) + len(piece[-2])
        if most < 0:
            return piece[0], place[0]
        since = np.where(divided, end[around], since)
        # Two functions of Python cross by the rounding of their times: the inner one is cut.
        kept = ~(over & yields[around] & yields[crossing])
        crossing, around, since = crossing[kept], nested.parent[around[kept]].astype(np.int64), since[kept]
    pieces, places = np.concatenate(piece), np.concatenate(place)
    inner = (places > begin[pieces]) & (places < end[pieces])
    both = np.unique(np.stack([pieces[inner], places[inner]]), axis=1)
    return both[0], both[1]
