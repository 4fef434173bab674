"""The picture that is shown without a script: in image viewers, in mails, in a repository's preview."""

from __future__ import annotations

from collections import defaultdict
from html import escape

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.tree import Tree
from aiflame.render.clean_text import cleaned_text
from aiflame.render.flame_svg.layout import Layout
from aiflame.values import dataclass

WIDTH, MARGIN, ROW, BAR = 1200, 10, 17, 16
HEADER, LEGEND_ROW = 62, 22
FOOTER = 26
MIN_WIDTH = 0.5
"""Narrower frames (in px of WIDTH) are only in the data."""
MAX_ROWS = 400
"""The still picture cuts off deeper recursion; the script shows all of it."""
LABEL_WIDTH = 26
CHARACTER = 7.1
"""The width of a character in a label, an upper estimate for the common sans-serif fonts."""


@dataclass(frozen=True, slots=True)
class Chip:
    """An entry of the legend."""

    css: str
    label: str
    share: str


@dataclass(frozen=True, slots=True)
class Still:
    svg: str
    height: int


def draw(tree: Tree, layout: Layout, css: NDArray[np.int64], title: str, subtitle: str, chips: list[Chip], inverted: bool) -> Still:
    """`css`: the number of each node's fill class."""
    scale = np.float64((WIDTH - 2 * MARGIN) / max(int(layout.total[0, 0]), 1))
    width: NDArray[np.float64] = layout.total[0] * scale
    x: NDArray[np.float64] = layout.start * scale + np.float64(MARGIN)
    drawn = np.flatnonzero((width >= MIN_WIDTH) & (layout.depth < MAX_ROWS))
    slim = _silhouette(x, width, layout.depth)
    rows = int(layout.depth[np.concatenate((drawn, slim))].max(initial=0)) + 1
    legend, legend_rows = _legend(chips)
    top = HEADER + legend_rows * LEGEND_ROW + 6
    height = top + rows * ROW + FOOTER

    y = top + (layout.depth if inverted else rows - 1 - layout.depth) * ROW
    parts = [
        f'<text class="title" x="{MARGIN}" y="28" font-size="18" font-weight="600">{shown(title, 100)}</text>',
        f'<text class="soft" x="{MARGIN}" y="48">{shown(subtitle, 160)}</text>',
        legend,
        '<g opacity=".75">',
        *_bars(x[slim], y[slim], np.full(len(slim), 1.0), css[slim]),
        "</g>",
        *_bars(x[drawn], y[drawn], width[drawn], css[drawn]),
        *_labels(tree, layout.frame[drawn], x[drawn], y[drawn], width[drawn]),
        f'<text class="soft" x="{MARGIN}" y="{height - 9}">Open this file in a browser to zoom and search.</text>',
    ]
    return Still("\n".join(parts), height)


def shown(text: str, limit: int) -> str:
    """Foreign text as XML text of at most `limit` characters."""
    text = cleaned_text(text[: limit + 1])
    return escape(text if len(text) <= limit else text[: limit - 1] + "…")


def _legend(chips: list[Chip]) -> tuple[str, int]:
    """The chips, and the number of rows that they take."""
    parts, x, row = [], MARGIN, 0
    for chip in chips:
        text = f"{chip.label} {chip.share}".strip()
        wide = 17 + round(len(text) * CHARACTER)
        if x + wide > WIDTH - MARGIN:
            x, row = MARGIN, row + 1
        y = HEADER + row * LEGEND_ROW
        parts.append(f'<rect class="{chip.css}" x="{x}" y="{y}" width="12" height="12" rx="3"/>')
        parts.append(f'<text class="soft" x="{x + 17}" y="{y + 10}">{shown(text, 80)}</text>')
        x += wide + 14
    return "".join(parts), row + 1


def _silhouette(x: NDArray[np.float64], width: NDArray[np.float64], depth: NDArray[np.int32]) -> NDArray[np.int64]:
    """Among frames too narrow to draw, keeps one for each px of a row, so that the outline stays right."""
    narrow = np.flatnonzero((width < MIN_WIDTH) & (width > 0) & (depth < MAX_ROWS))
    _, first = np.unique(depth[narrow] * WIDTH + x[narrow].astype(np.int64), return_index=True)
    return narrow[first]


def _bars(x: NDArray[np.float64], y: NDArray[np.int32], width: NDArray[np.float64], css: NDArray[np.int64]) -> list[str]:
    """One path for each colour: a tenth of the size of one rect for each frame."""
    shown_width = np.where(width > 2, width - 0.5, width * 0.85)
    paths: dict[int, list[str]] = defaultdict(list)
    for left, top, wide, number in zip(x.tolist(), y.tolist(), shown_width.tolist(), css.tolist(), strict=True):
        paths[number].append(f"M{left:.1f} {top}h{wide:.1f}v{BAR}h{-wide:.1f}z")
    return [f'<path class="s{number}" d="{"".join(path)}"/>' for number, path in sorted(paths.items())]


def _labels(tree: Tree, frame: NDArray[np.uint32], x: NDArray[np.float64], y: NDArray[np.int32], width: NDArray[np.float64]) -> list[str]:
    wide = np.flatnonzero(width >= LABEL_WIDTH)
    names = tree.frames["name"][frame[wide].astype(np.int64)].str.slice(0, WIDTH // 5)
    parts = ['<g class="label">']
    for at, name in zip(wide.tolist(), names.to_list(), strict=True):
        room = int((width[at] - 7) / CHARACTER)
        if room >= 3:
            parts.append(f'<text x="{x[at] + 3.5:.1f}" y="{y[at] + 12}">{shown(name or "all", room)}</text>')
    parts.append("</g>")
    return parts
