"""The memory of a launch → its records: rings turned, clocks going on where they wrapped, begins and ends paired.

Triton's Proton dialect lays out a CTA's memory so, in 32-bit words (3.6 to 3.9):

    0  0xdeadbeef
    1  number of the CTA       2  multiprocessor       3  bytes of records
    4  globaltimer when it began    6  before it wrote its records back    8  after that (two words each, ns)
    10 words written, one count for each warp of the CTA
    …  records: a ring for each warp that records, all of one size

A record is two words: bit 31 of the first says that a scope ends, bits 30 to 23 are its number, bits 22 to 20 what it is (0: scope; 2 and 3
are marks and values of later versions), bits 10 to 0 are bits 42 to 32 of the multiprocessor's clock, and the second word the bits below.
A count goes on where the ring has wrapped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

MAGIC = 0xDEADBEEF
HEADER_WORDS = 10
RECORD_WORDS = 2

FEW = 64
"""So many warps are looked at to find the scope that crosses others."""
_SIGNS = np.random.default_rng(0).integers(1, 1 << 62, 256) | 1
"""A number for each scope: sums of them with signs are 0 where each that begins also ends, and, but by a chance of 2^-62, only there."""

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
    """Those that were recorded, in the order of the memory."""

    number: Ints
    sm: Ints
    begin: Ints
    """globaltimer, as are the others"""
    before_end: Ints
    end: Ints
    bad: int
    """Places that hold no CTA: it never ran to its end, or its header contradicts itself."""

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Records:
    """A unit is a warp of a CTA: unit n is the n % W-th recorded warp of CTA n // W."""

    ctas: Ctas
    recorded: tuple[int, ...]
    kept: Ints
    """of each unit, how many records there are; and how many more there were before them"""
    dropped: Ints
    unit: NDArray[np.int32]
    """of each record, as are the others; by unit and time"""
    scope: NDArray[np.int16]
    ends: Bools
    clock: Ints
    """Cycles since the first record of the same multiprocessor; it does not wrap."""
    origin: dict[int, int]
    """That first record's clock, for each multiprocessor."""

    @property
    def units(self) -> int:
        return len(self.kept)

    @property
    def first(self) -> Ints:
        """Of each unit: where its records begin."""
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
    """All records of a launch's memory: as many CTAs as there are scratches in it."""
    words = data[: len(data) // layout.scratch_bytes * layout.scratch_bytes].view("<u4").reshape(-1, layout.scratch_bytes // 4)
    sound = _sound(words, layout)
    # One compiled kernel has one size of buffer: all of its CTAs say the same, but a damaged one.
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
    """CTAs that ran to their end, with room for their records."""
    if words.shape[1] < HEADER_WORDS + layout.warps:
        return np.zeros(len(words), dtype=np.bool_)
    room = (words.shape[1] - HEADER_WORDS - layout.warps) * 4
    times = words[:, 4:10].copy().view("<u8")
    in_order = (times[:, 0] > 0) & (times[:, 1] >= times[:, 0]) & (times[:, 2] >= times[:, 1]) & (times[:, 2] < 1 << 62)
    sound: Bools = (words[:, 0] == MAGIC) & (words[:, 3] <= room) & in_order
    return sound


def _repeated(number: NDArray[np.uint32], sound: Bools) -> Ints:
    """Places of CTAs whose number another one before them has: memory of an earlier launch."""
    rows = np.flatnonzero(sound)
    _, first = np.unique(number[rows], return_index=True)
    found: Ints = np.delete(rows, first)
    return found


def _in_order(rings: NDArray[np.uint64], counts: Ints, kept: Ints) -> NDArray[np.uint64]:
    """The records of each unit, the oldest first."""
    ring = rings.shape[1]
    wrapped = np.flatnonzero((counts > ring) & (counts % max(ring, 1) > 0))
    if len(wrapped):
        turned = (np.arange(ring) + (counts[wrapped] % ring)[:, None]) % ring
        rings[wrapped] = np.take_along_axis(rings[wrapped], turned, axis=1)
    found: NDArray[np.uint64] = rings.ravel() if (kept == ring).all() else rings[np.arange(ring) < kept[:, None]]
    return found


def _going_on(clock: Ints, unit: NDArray[np.int32], kept: Ints, ctas: Ctas, whole: int) -> tuple[Ints, dict[int, int]]:
    """Clocks that go on where they wrapped, from the first record of their multiprocessor; and that one's own clock."""
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
    # Units of one multiprocessor share its clock: the one whose CTA began first is where it is counted from.
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


def opened(found: Records) -> Records:
    """The records, with a begin for each scope that was open already when a ring's oldest record was written: it counts from there."""
    mine = np.flatnonzero((found.dropped > 0)[found.unit])
    key = found.unit[mine].astype(np.int64) << 8 | found.scope[mine]
    order = np.argsort(key, kind="stable")
    first = mine[order[np.append(True, np.diff(key[order]) != 0)[: len(key)]]]
    missing = first[found.ends[first]]
    if not len(missing):
        return found
    # The scope that ends last is the outermost.
    missing = missing[np.lexsort((-missing, found.unit[missing]))]
    unit = found.unit[missing]
    at = found.first[unit]
    return replace(
        found,
        kept=found.kept + np.bincount(unit, minlength=found.units),
        unit=np.insert(found.unit, at, unit),
        scope=np.insert(found.scope, at, found.scope[missing]),
        ends=np.insert(found.ends, at, False),
        clock=np.insert(found.clock, at, found.clock[at]),
    )


def paired(found: Records) -> Spans:
    """Each end with the begin of the same scope on the same warp, where nothing of that scope lies between them."""
    key = found.unit.astype(np.int64) << 8 | found.scope
    none = np.zeros(0, dtype=np.int64)
    if not len(key):
        return Spans(none, none, 0)
    # Most scopes hold no other: their end follows at once, and they need no sorting.
    starts = ~found.ends
    at_once = np.flatnonzero(starts[:-1] & found.ends[1:] & (key[1:] == key[:-1]))
    rest = np.ones(len(key), dtype=np.bool_)
    rest[at_once] = rest[at_once + 1] = False
    left = np.flatnonzero(rest)
    order = left[np.argsort(key[left], kind="stable")]
    both = np.flatnonzero(starts[order[:-1]] & found.ends[order[1:]] & (key[order[1:]] == key[order[:-1]]))
    begin, end = order[both], order[both + 1]
    if len(at_once):
        # A scope within the very same scope would be one whose begin was lost: records in between end the pairing.
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
    """How spans of a warp lie in each other."""

    parent: Ints
    """row of the span around it, -1: none"""
    path: NDArray[np.int32]
    """row of `paths`, -1: it lies beside the others, not in them"""
    paths: NDArray[np.int32]
    """(parent path or -1, scope) for each path, callers first"""


def nested(found: Records, spans: Spans) -> Nest:
    """Scopes that cross others go on while the warp does other things: they lie beside them."""
    beside = np.zeros(256, dtype=np.bool_)
    scope = found.scope[spans.begin].astype(np.int64)
    inside = np.flatnonzero(~beside[scope])
    while (crossing := _crossing(scope[inside], spans.begin[inside], spans.end[inside], len(found.unit))).any():
        # All of a scope, since frames must not depend on chance: the one without which fewest still cross.
        few = inside[np.isin(found.unit[spans.begin[inside]], found.unit[spans.begin[inside[crossing]]][:FEW])]
        beside[_most_crossing(scope[few], spans.begin[few], spans.end[few])] = True
        inside = np.flatnonzero(~beside[scope])
    above = np.full(len(scope), -1, dtype=np.int64)
    parent = _parents(spans.begin[inside], spans.end[inside], len(found.unit))
    above[inside] = np.where(parent >= 0, inside[parent], -1)
    path, paths = _paths(above, scope, inside)
    return Nest(above, path, paths)


def _crossing(scope: Ints, begin: Ints, end: Ints, rows: int) -> Bools:
    """Spans within which others begin that do not end there, or end that did not begin there."""
    opened = np.zeros(rows, dtype=np.int64)
    opened[begin], opened[end] = _SIGNS[scope], -_SIGNS[scope]
    reached = np.cumsum(opened)
    found: Bools = reached[end - 1] != reached[begin]
    return found


def _most_crossing(scope: Ints, begin: Ints, end: Ints) -> int:
    rows, where = np.unique(np.concatenate([begin, end]), return_inverse=True)
    begin, end = where[: len(begin)], where[len(begin) :]
    suspects = np.unique(scope[_crossing(scope, begin, end, len(rows))]).tolist()

    def left(suspect: int) -> int:
        rest = scope != suspect
        return int(_crossing(scope[rest], begin[rest], end[rest], len(rows)).sum())

    return int(min(suspects, key=lambda suspect: (left(suspect), -suspect)))


def _parents(begin: Ints, end: Ints, count_of_rows: int) -> Ints:
    """For spans by unit and begin of which none cross: the row of the innermost around each, -1: none."""
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
    made = 0
    level = inside[parent[inside] < 0]
    waiting = inside[parent[inside] >= 0]
    while len(level):
        above = np.where(parent[level] >= 0, path[parent[level]], -1).astype(np.int64)
        key, which = np.unique((above + 1) << 8 | scope[level], return_inverse=True)
        path[level] = made + which
        rows.append(np.stack([(key >> 8) - 1, key & 0xFF], axis=1).astype(np.int32))
        made += len(key)
        ready = path[parent[waiting]] >= 0
        level, waiting = waiting[ready], waiting[~ready]
    return path, np.concatenate(rows) if rows else np.zeros((0, 2), dtype=np.int32)
