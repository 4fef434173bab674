"""Divides whole numbers in proportion to shares. Sums stay exact, and rounding favours no share."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Floats, Ints

CELLS = 4 << 20
"""The most cells of a matrix in memory at once."""


Cells = tuple[Ints, Ints, Ints]
"""site, point, value"""


def divide(point: Ints, window: Ints, count: Ints, site: Ints, of_window: Ints, overlap: Ints) -> Cells:
    """Divides the samples of one function (each row: `count` samples at a `point` in a `window`) over its sites, in each window in
    proportion to their `overlap` with it (rows `site`, `of_window`). Every window with samples has an overlap.

    The sum of each point stays exact, and each site gets its share to within a few samples, however few samples a point has.
    """
    points, point = np.unique(point, return_inverse=True)
    sites, site = np.unique(site, return_inverse=True)
    if len(sites) == 1:
        value = np.bincount(point, count, len(points)).astype(np.int64)
        return np.full(len(points), sites[0]), points, value
    share, window = _shares(site, of_window, overlap, len(sites), window)
    order = np.argsort(point, kind="stable")
    point, window, count = point[order], window[order], count[order]
    step = max(1, CELLS // max(share.shape))
    carried: list[Floats] = [np.zeros(0)] * (len(sites) - 1).bit_length()
    cells = []
    for first in range(0, len(points), step):
        rows = slice(*np.searchsorted(point, [first, first + step]))
        size = min(step, len(points) - first)
        expected = _expected(point[rows] - first, window[rows], count[rows], share, size)
        sums = np.bincount(point[rows] - first, count[rows], size).astype(np.int64)
        value = _rounded(expected, sums, carried)
        at, to = np.nonzero(value)
        cells.append((sites[to], points[first + at], value[at, to]))
    return joined(cells)


def joined(cells: list[Cells]) -> Cells:
    none = np.zeros(0, dtype=np.int64)
    site, point, value = (np.concatenate([none, *(each[column] for each in cells)]) for column in range(3))
    return site, point, value


def scaled(group: Ints, value: Ints, total: Ints) -> Ints:
    """The values in proportion, so that those of each group (sorted) add up to its total exactly: running sums are rounded."""
    if not len(group):
        return value
    first = np.flatnonzero(np.diff(group, prepend=-1))
    running = np.cumsum(value).astype(np.longdouble)
    before = np.concatenate([[0], running])[first]
    which = np.repeat(np.arange(len(first)), np.diff(first, append=len(group)))
    running -= before[which]
    last = np.append(first[1:], len(group)) - 1
    reached = np.rint(running * total[first][which] / np.maximum(running[last][which], 1)).astype(np.int64)
    reached[last] = total[first]
    parts: Ints = np.diff(reached, prepend=0)
    parts[first] = reached[first]
    return parts


def _shares(site: Ints, window: Ints, overlap: Ints, sites: int, wanted: Ints) -> tuple[Floats, Ints]:
    """A row of shares for each window, one for each site; and the row of each wanted window."""
    windows, place = np.unique(wanted, return_inverse=True)
    kept = np.isin(window, windows)
    row = np.searchsorted(windows, window[kept])
    # If there are very many sites and windows, a row stands for several neighbouring windows.
    coarser = max(1, len(windows) * sites // (8 * CELLS))
    rows = (len(windows) - 1) // coarser + 1
    shares = np.bincount(row // coarser * sites + site[kept], overlap[kept], rows * sites).reshape(rows, sites)
    return shares / shares.sum(axis=1, keepdims=True), place // coarser


def _expected(point: Ints, window: Ints, count: Ints, share: Floats, points: int) -> Floats:
    """A row for each point (sorted, none missing) with the expected value of each site."""
    if len(point) * 8 < points * len(share):
        return np.add.reduceat(count[:, None] * share[window], np.searchsorted(point, np.arange(points)), axis=0)
    cells = np.bincount(point * len(share) + window, count, points * len(share)).reshape(points, len(share))
    expected: Floats = cells @ share
    return expected


def _rounded(expected: Floats, sums: Ints, carried: list[Floats]) -> Ints:
    """Whole numbers near the expected ones, whose rows have these sums.

    The sites are divided into halves, and these into halves again; for each half, running sums over the rows are rounded. The remainder
    from rounding earlier rows is `carried` on.
    """
    rows, columns = expected.shape
    levels = len(carried)
    wide = np.zeros((rows, 1 << levels))
    wide[:, :columns] = expected
    pyramid = [wide]
    for _ in range(levels):
        pyramid.append(pyramid[-1].reshape(rows, -1, 2).sum(axis=2))
    value = sums[:, None]
    for level in range(levels):
        halves = pyramid[levels - level - 1].reshape(rows, -1, 2)
        whole = pyramid[levels - level]
        part = np.divide(halves[:, :, 0], whole, out=np.zeros_like(whole), where=whole > 0)
        if not len(carried[level]):
            carried[level] = np.full(value.shape[1], 0.5)
        running = carried[level] + np.cumsum(value * part, axis=0)
        reached = np.floor(running)
        left = np.diff(reached, axis=0, prepend=np.zeros((1, value.shape[1]))).astype(np.int64)
        left = np.where(part >= 1, value, np.where(part <= 0, 0, np.clip(left, 0, value)))  # a half without a share gets nothing
        carried[level] = running[-1] - reached[-1]
        value = np.stack([left, value - left], axis=2).reshape(rows, -1)
    return value[:, :columns]
