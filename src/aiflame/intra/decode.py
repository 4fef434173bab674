"""The memory of a launch → its records: rings in order of time, clocks without wraps, begins and ends paired.

The layout of a CTA's memory by Triton's Proton dialect, in 32-bit words (3.6 to 3.9):

    0  0xdeadbeef
    1  number of the CTA       2  multiprocessor       3  bytes of records
    4  globaltimer when it began    6  before it wrote its records back    8  after that (two words each, ns)
    10 words written, one count for each warp of the CTA
    …  records: a ring for each warp that records, all of one size

A record is two words: bit 31 of the first is set when a scope ends, bits 30 to 23 are its number, bits 22 to 20 its kind (0: scope; 2 and
3: marks and values of later versions), bits 10 to 0 are bits 42 to 32 of the multiprocessor's clock; the second word has the lower bits.
The counts include records that were overwritten when the ring wrapped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiflame.values import dataclass, replace

MAGIC = 0xDEADBEEF
HEADER_WORDS = 10
RECORD_WORDS = 2

FEW = 64
"""Number of warps that are searched for the scope that crosses others."""
_SIGNS = np.random.default_rng(0).integers(1, 1 << 62, 256) | 1
"""A random number for each scope: added at begins and subtracted at ends, they sum to 0 if all pairs match, and otherwise only with a
probability of 2^-62."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Layout:
    warps: int
    recorded: tuple[int, ...]
    scratch_bytes: int
    clock_bits: int = 43


@dataclass(frozen=True, slots=True)
class Ctas:
    """The recorded CTAs, in the order of the memory."""

    number: Ints
    sm: Ints
    begin: Ints
    """globaltimer, as are the others"""
    before_end: Ints
    end: Ints
    bad: int
    """Number of places without a usable CTA: it did not run to its end, or its header is contradictory."""

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Records:
    """A unit is a warp of a CTA: unit n is the n % W-th recorded warp of CTA n // W."""

    ctas: Ctas
    recorded: tuple[int, ...]
    kept: Ints
    """for each unit, how many records are left; `dropped`: how many were overwritten before them"""
    dropped: Ints
    unit: NDArray[np.int32]
    """for each record, as the following columns; by unit and time"""
    scope: NDArray[np.int16]
    ends: Bools
    clock: Ints
    """Cycles since the first record of the same multiprocessor, without wraps."""
    origin: dict[int, int]
    """For each multiprocessor, the clock of that first record."""

    @property
    def units(self) -> int:
        return len(self.kept)

    @property
    def first(self) -> Ints:
        """The row of each unit's first record."""
        return np.cumsum(self.kept) - self.kept


@dataclass(frozen=True, slots=True)
class Spans:
    """Scopes that began and ended on a warp, by unit and begin."""

    begin: Ints
    """rows of records"""
    end: Ints
    unpaired: int
    """Records whose other end is missing."""


def records(data: NDArray[np.uint8], layout: Layout) -> Records:
    """All records in a launch's memory."""
    words = data[: len(data) // layout.scratch_bytes * layout.scratch_bytes].view("<u4").reshape(-1, layout.scratch_bytes // 4)
    sound = _sound(words, layout)
    # All CTAs of a compiled kernel have the same size of buffer, except damaged ones.
    size = int(np.bincount(words[sound, 3]).argmax()) if sound.any() else 0
    sound &= words[:, 3] == size
    sound[_repeated(words[:, 1], sound)] = False
    head = words[sound, :HEADER_WORDS]
    times = head[:, 4:10].copy().view("<u8").astype(np.int64)
    ctas = Ctas(head[:, 1].astype(np.int64), head[:, 2].astype(np.int64), times[:, 0], times[:, 1], times[:, 2], int((~sound).sum()))

    ring = size // 4 // len(layout.recorded) // RECORD_WORDS
    counts = words[sound, HEADER_WORDS : HEADER_WORDS + layout.warps][:, list(layout.recorded)].astype(np.int64).ravel() // RECORD_WORDS
    kept = np.minimum(counts, ring)
    begin = HEADER_WORDS + layout.warps
    end = begin + ring * RECORD_WORDS * len(layout.recorded)
    body = np.ascontiguousarray(words[sound, begin:end]).view("<u8").reshape(len(counts), ring)
    record = _in_order(body, counts, kept)
    unit = np.repeat(np.arange(len(kept), dtype=np.int32), kept)

    tag = record.astype(np.uint32)
    is_scope = (tag & 0x600000) == 0
    if not is_scope.all():
        tag, record, unit = tag[is_scope], record[is_scope], unit[is_scope]
        kept, before = np.bincount(unit, minlength=len(kept)).astype(np.int64), kept
        counts = counts - before + kept
    clock = (record >> 32).astype(np.int64)
    if layout.clock_bits > 32:
        clock |= (tag & 0x7FF).astype(np.int64) << 32
    clock, origin = _going_on(clock, unit, kept, ctas, 1 << layout.clock_bits)
    return Records(ctas, layout.recorded, kept, counts - kept, unit, (tag >> 23 & 0xFF).astype(np.int16), tag >= 1 << 31, clock, origin)


def _sound(words: NDArray[np.uint32], layout: Layout) -> Bools:
    """True for the CTAs that ran to their end and have a consistent header."""
    if words.shape[1] < HEADER_WORDS + layout.warps:
        return np.zeros(len(words), dtype=np.bool_)
    room = (words.shape[1] - HEADER_WORDS - layout.warps) * 4
    times = words[:, 4:10].copy().view("<u8")
    in_order = (times[:, 0] > 0) & (times[:, 1] >= times[:, 0]) & (times[:, 2] >= times[:, 1]) & (times[:, 2] < 1 << 62)
    sound: Bools = (words[:, 0] == MAGIC) & (words[:, 3] <= room) & in_order
    return sound


def _repeated(number: NDArray[np.uint32], sound: Bools) -> Ints:
    """Places of CTAs whose number has already occurred: memory left by an earlier launch."""
    rows = np.flatnonzero(sound)
    _, first = np.unique(number[rows], return_index=True)
    repeated: Ints = np.delete(rows, first)
    return repeated


def _in_order(rings: NDArray[np.uint64], counts: Ints, kept: Ints) -> NDArray[np.uint64]:
    """The records of each unit, the oldest first."""
    ring = rings.shape[1]
    wrapped = np.flatnonzero((counts > ring) & (counts % max(ring, 1) > 0))
    if len(wrapped):
        turned = (np.arange(ring) + (counts[wrapped] % ring)[:, None]) % ring
        rings[wrapped] = np.take_along_axis(rings[wrapped], turned, axis=1)
    result: NDArray[np.uint64] = rings.ravel() if (kept == ring).all() else rings[np.arange(ring) < kept[:, None]]
    return result


def _going_on(clock: Ints, unit: NDArray[np.int32], kept: Ints, ctas: Ctas, whole: int) -> tuple[Ints, dict[int, int]]:
    """Clocks without wraps, counted from the first record of each multiprocessor; and the clock of that record."""
    if not len(clock):
        return clock, {}
    first = np.cumsum(kept) - kept
    steps = np.diff(clock, prepend=clock[0])
    steps[first[kept > 0]] = 0
    if (steps < 0).any():
        steps[steps < -(whole >> 1)] += whole
        np.maximum(steps, 0, out=steps)  # one warp's records follow each other
    since = np.cumsum(steps)
    used = np.flatnonzero(kept)
    start = clock[first[used]]
    # Units of one multiprocessor share its clock, which is counted from the unit whose CTA began first.
    cta = used // (len(kept) // len(ctas))
    sm = ctas.sm[cta]
    order = np.lexsort((ctas.begin[cta], sm))
    heads = order[np.append(True, np.diff(sm[order]) != 0)]
    number = np.searchsorted(sm[heads], sm)
    apart = (start - start[heads][number]) % whole
    apart[apart >= whole >> 1] -= whole
    by_unit = np.zeros(len(kept), dtype=np.int64)
    by_unit[used] = apart - since[first[used]]
    result: Ints = since + by_unit[unit]
    return result, dict(zip(sm[heads].tolist(), start[heads].tolist(), strict=True))


def opened(decoded: Records) -> Records:
    """Adds a begin, at the time of the ring's oldest record, for each scope that was already open then."""
    mine = np.flatnonzero((decoded.dropped > 0)[decoded.unit])
    key = decoded.unit[mine].astype(np.int64) << 8 | decoded.scope[mine]
    order = np.argsort(key, kind="stable")
    first = mine[order[np.append(True, np.diff(key[order]) != 0)[: len(key)]]]
    missing = first[decoded.ends[first]]
    if not len(missing):
        return decoded
    # The scope that ends last is the outermost.
    missing = missing[np.lexsort((-missing, decoded.unit[missing]))]
    unit = decoded.unit[missing]
    at = decoded.first[unit]
    return replace(
        decoded,
        kept=decoded.kept + np.bincount(unit, minlength=decoded.units),
        unit=np.insert(decoded.unit, at, unit),
        scope=np.insert(decoded.scope, at, decoded.scope[missing]),
        ends=np.insert(decoded.ends, at, False),
        clock=np.insert(decoded.clock, at, decoded.clock[at]),
    )


def paired(decoded: Records) -> Spans:
    """Pairs each end with the preceding begin, if that is the neighbouring record of the same scope on the same warp."""
    key = decoded.unit.astype(np.int64) << 8 | decoded.scope
    none = np.zeros(0, dtype=np.int64)
    if not len(key):
        return Spans(none, none, 0)
    # Most scopes contain no other: their end is the next record, and they need no sorting.
    starts = ~decoded.ends
    at_once = np.flatnonzero(starts[:-1] & decoded.ends[1:] & (key[1:] == key[:-1]))
    unpaired = np.ones(len(key), dtype=np.bool_)
    unpaired[at_once] = unpaired[at_once + 1] = False
    remaining = np.flatnonzero(unpaired)
    order = remaining[np.argsort(key[remaining], kind="stable")]
    both = np.flatnonzero(starts[order[:-1]] & decoded.ends[order[1:]] & (key[order[1:]] == key[order[:-1]]))
    begin, end = order[both], order[both + 1]
    if len(at_once):
        # A scope inside itself means that an end and a begin were lost: such pairs are dropped.
        begin, end = _without_same_inside(begin, end, at_once, key)
    lost = len(key) - 2 * (len(begin) + len(at_once))
    begin, end = np.concatenate([at_once, begin]), np.concatenate([at_once + 1, end])
    until = np.zeros(len(key), dtype=np.int64)
    until[begin] = end
    begin = np.flatnonzero(until)
    return Spans(begin, until[begin], lost)


def _without_same_inside(begin: Ints, end: Ints, at_once: Ints, key: Ints) -> tuple[Ints, Ints]:
    by_key = np.argsort(key[at_once], kind="stable")
    place = (key[at_once] * np.int64(len(key) + 1) + at_once)[by_key]
    low, high = (key[begin] * np.int64(len(key) + 1) + rows for rows in (begin, end))
    clean = np.searchsorted(place, low) == np.searchsorted(place, high)
    return begin[clean], end[clean]


@dataclass(frozen=True, slots=True)
class Nest:
    """The nesting of the spans of a warp."""

    parent: Ints
    """row of the span around it, -1: none"""
    path: NDArray[np.int32]
    """row of `paths`, -1: the span is outside of the nesting"""
    paths: NDArray[np.int32]
    """(parent path or -1, scope) for each path, callers first"""


def nested(decoded: Records, spans: Spans) -> Nest:
    """Nests the spans. Scopes that cross others are asynchronous: they stay outside of the nesting."""
    beside = np.zeros(256, dtype=np.bool_)
    scope = decoded.scope[spans.begin].astype(np.int64)
    inside = np.flatnonzero(~beside[scope])
    while (crossing := _crossing(scope[inside], spans.begin[inside], spans.end[inside], len(decoded.unit))).any():
        # Takes out all spans of one scope, so that paths do not depend on chance: the scope whose removal leaves the fewest crossings.
        few = inside[np.isin(decoded.unit[spans.begin[inside]], decoded.unit[spans.begin[inside[crossing]]][:FEW])]
        beside[_most_crossing(scope[few], spans.begin[few], spans.end[few])] = True
        inside = np.flatnonzero(~beside[scope])
    above = np.full(len(scope), -1, dtype=np.int64)
    parent = _parents(spans.begin[inside], spans.end[inside], len(decoded.unit))
    above[inside] = np.where(parent >= 0, inside[parent], -1)
    path, paths = _paths(above, scope, inside)
    return Nest(above, path, paths)


def _crossing(scope: Ints, begin: Ints, end: Ints, rows: int) -> Bools:
    """Which spans contain only one end of another span."""
    opened = np.zeros(rows, dtype=np.int64)
    opened[begin], opened[end] = _SIGNS[scope], -_SIGNS[scope]
    reached = np.cumsum(opened)
    crosses: Bools = reached[end - 1] != reached[begin]
    return crosses


def _most_crossing(scope: Ints, begin: Ints, end: Ints) -> int:
    rows, where = np.unique(np.concatenate([begin, end]), return_inverse=True)
    begin, end = where[: len(begin)], where[len(begin) :]
    suspects = np.unique(scope[_crossing(scope, begin, end, len(rows))]).tolist()

    def left(suspect: int) -> int:
        others = scope != suspect
        return int(_crossing(scope[others], begin[others], end[others], len(rows)).sum())

    return int(min(suspects, key=lambda suspect: (left(suspect), -suspect)))


def _parents(begin: Ints, end: Ints, count_of_rows: int) -> Ints:
    """The row of the innermost span around each, -1: none. Spans are sorted by unit and begin, and do not cross."""
    parent = np.full(len(begin), -1, dtype=np.int64)
    opened = np.zeros(count_of_rows, dtype=np.int8)
    opened[begin], opened[end] = 1, -1
    depth = np.cumsum(opened, dtype=np.int16)[begin] - 1
    rows = np.arange(len(begin))
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = depth == level
        parent[here] = np.maximum.accumulate(np.where(depth == level - 1, rows, -1))[here]
    return parent


def _paths(parent: Ints, scope: Ints, inside: Ints) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    path = np.full(len(parent), -1, dtype=np.int32)
    rows: list[NDArray[np.int32]] = []
    count = 0
    level = inside[parent[inside] < 0]
    waiting = inside[parent[inside] >= 0]
    while len(level):
        above = np.where(parent[level] >= 0, path[parent[level]], -1).astype(np.int64)
        key, which = np.unique((above + 1) << 8 | scope[level], return_inverse=True)
        path[level] = count + which
        rows.append(np.stack([(key >> 8) - 1, key & 0xFF], axis=1).astype(np.int32))
        count += len(key)
        ready = path[parent[waiting]] >= 0
        level, waiting = waiting[ready], waiting[~ready]
    return path, np.concatenate(rows) if rows else np.zeros((0, 2), dtype=np.int32)
