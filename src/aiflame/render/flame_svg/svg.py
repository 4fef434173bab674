"""The flame graph as one SVG file: interactive in a browser, a still picture elsewhere, and it loads nothing from the network.

Its data is a block (`render/blocks.py`) in base64. It has the columns of `render/frame_columns.py`, its frames in the order of siblings,
with `frame.approximate` if any is, and of the nodes, in depth-first order, `node.depth` (smaller than their parents),
`node.frame`, and for the head's metric N `node.own.N` and `node.folded.N`; with `limits`, behind the metric also those of the time with a
known limit, of the time at it, and of the part that memory limits. `web/flame_svg/file.js` reads it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aiflame.analyze.amounts import amount, share
from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Kind, Tree
from aiflame.render.blocks import Values, block
from aiflame.render.bundle import WEB, packaged
from aiflame.render.clean_text import cleaned_text
from aiflame.render.colors import DIFF_STEPS, LABEL, SHADES, TONES, kind_class, palette_css, shade_of
from aiflame.render.flame_svg import still
from aiflame.render.flame_svg.layout import MAX_NODES, Layout, lay_out
from aiflame.render.frame_columns import IN_ORDER, frame_columns, kind_labels
from aiflame.render.output import new_file

LIMIT_CLASSES = ("below 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80% or more", "no limit known")
"""As GROUPS of web/flame/limits.js."""


def write(
    tree: Tree,
    metric: str,
    out: IO[str] | Path,
    title: str,
    subtitle: str,
    inverted: bool = False,
    max_nodes: int = MAX_NODES,
    min_share: float = 0.0,
) -> None:
    """Draws `tree`, with widths from `metric`. Frames below `min_share` (0…1) of the total are folded into their callers."""
    layout = lay_out(tree, (metric,), max_nodes, min_share)
    kinds = tree.frames["kind"].to_numpy()
    shades = np.asarray(shade_of(tree.frames["name"].to_list()), dtype=np.int64)
    css = (kinds * np.int64(SHADES) + shades)[layout.frame]
    chips = _kind_chips(layout, kinds[layout.frame])
    _write(tree, (metric,), layout, css, chips, out, title, subtitle, inverted)


def write_limits(
    tree: Tree,
    metric: str,
    out: IO[str] | Path,
    title: str,
    subtitle: str,
    inverted: bool = False,
    max_nodes: int = MAX_NODES,
    min_share: float = 0.0,
) -> None:
    """As `write`, frames coloured by how near their kernels come to the limit of their device; the tree has OF_LIMITS."""
    columns = (metric, *(f"limits-{name}" for name in ("counted", "limit", "by_memory")))
    layout = lay_out(tree, columns, max_nodes, min_share)
    css = limit_classes(layout.total[1], layout.total[2])
    own = nodes.gather(css, layout.own[0] + layout.folded[0], len(LIMIT_CLASSES))
    whole = int(layout.total[0, 0])
    chips = [still.Chip(f"s{place}", name, share(int(own[place]), whole)) for place, name in enumerate(LIMIT_CLASSES)]
    facts = " · ".join(filter(None, (subtitle, "colours: share of the device's limit")))
    _write(tree, columns, layout, css, chips, out, title, facts, inverted, limits=True)


def limit_classes(counted: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node a place in LIMIT_CLASSES: as `limitGroup` of web/flame/limits.js."""
    classes = len(LIMIT_CLASSES) - 1
    reached = np.minimum(classes - 1, np.floor(limit / np.maximum(counted, 1) * classes).astype(np.int64))
    return np.where(counted > 0, reached, classes)


def write_diff(
    tree: Tree,
    out: IO[str] | Path,
    title: str,
    subtitle: str,
    inverted: bool = False,
    max_nodes: int = MAX_NODES,
    min_share: float = 0.0,
) -> None:
    """Draws a tree with the metrics `base` and `new`: red frames grew, blue ones shrank; widths come from `new`.

    Frames that are only in the base have no width; the file has their total, and shows them when widths are switched to the base.
    """
    layout = lay_out(tree, ("new", "base"), max_nodes, min_share)
    css = diff_steps(layout.total[1], layout.total[0]) + len(DIFF_STEPS)
    _write(tree, ("new", "base"), layout, css, _diff_chips(), out, title, subtitle, inverted)


def diff_steps(base: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much each node changed, as a step of `DIFF_STEPS`: its difference relative to the larger of both values."""
    change = (new - base) / np.maximum(np.maximum(new, base), 1)
    steps = np.searchsorted(np.asarray(DIFF_STEPS), np.abs(change), side="right")
    return np.where(change < 0, -steps, steps).astype(np.int64)


def _write(
    tree: Tree,
    metrics: tuple[str, ...],
    layout: Layout,
    css: NDArray[np.int64],
    chips: list[still.Chip],
    out: IO[str] | Path,
    title: str,
    subtitle: str,
    inverted: bool,
    *,
    limits: bool = False,
) -> None:
    kinds = None if len(metrics) > 1 else np.unique(tree.frames["kind"].to_numpy()[layout.frame]).tolist()
    unit = tree.metric(metrics[0]).unit
    label, whole = tree.metric(metrics[0]).label, amount(int(layout.total[0, 0]), unit)
    facts = " · ".join(filter(None, (subtitle, whole if label in subtitle else f"{label} {whole}")))
    head: dict[str, object] = {
        "title": cleaned_text(title),
        "facts": cleaned_text(facts),
        "inverted": inverted,
        "metrics": [
            {"name": one.name, "unit": one.unit, "label": one.label} for one in map(tree.metric, metrics[:1] if limits else metrics)
        ],
        "limits": limits,
        "steps": list(DIFF_STEPS),
        "foldedNodes": layout.folded_nodes,
    }
    picture = still.draw(tree, layout, css, title, facts, chips, inverted)
    script = packaged("flame_svg/main.js")
    style = (WEB / "flame_svg" / "style.css").read_text(encoding="utf-8").replace("LABEL_COLOR", LABEL)
    # A media rule, not a media attribute: librsvg heeds neither and would apply the guarded rules.
    dark_rules = (WEB / "flame_svg" / "dark.css").read_text(encoding="utf-8") + palette_css("dark", kinds, limits=limits)
    dark = f"@media (prefers-color-scheme: dark) {{\n{dark_rules}\n}}"
    text = "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" id="aiflame" width="{still.WIDTH}" height="{picture.height}"'
            f' viewBox="0 0 {still.WIDTH} {picture.height}" role="img" aria-labelledby="aiflame-title">',
            f'<title id="aiflame-title">{still.shown(title, 200)}</title>',
            f"<style>{_cdata(style + palette_css('light', kinds, limits=limits))}</style>",
            f'<style id="aiflame-dark">{_cdata(dark)}</style>',
            f'<g id="aiflame-still"><rect class="paper" width="100%" height="100%"/>\n{picture.svg}\n</g>',
            f'<metadata id="aiflame-data">{_data(tree, layout, head)}</metadata>',
            f"<script>{_cdata(script)}</script>",
            "</svg>\n",
        )
    )
    if isinstance(out, Path):
        with new_file(out) as file:
            file.write(text.encode())
    else:
        out.write(text)


def _data(tree: Tree, layout: Layout, head: Mapping[str, object]) -> str:
    """The nodes and their frames, for the script."""
    used = np.unique(layout.frame).astype(np.int64)
    used[1:] = used[1:][np.argsort(layout.name_rank[used[1:]])]  # the root's frame comes first
    number = np.empty(len(tree.frames), dtype=np.int64)
    number[used] = np.arange(len(used))
    frames = tree.frames[used]
    columns: dict[str, Values] = {"node.depth": layout.depth, "node.frame": number[layout.frame]}
    columns |= {f"node.own.{metric}": row for metric, row in enumerate(layout.own)}
    columns |= {f"node.folded.{metric}": row for metric, row in enumerate(layout.folded)}
    columns |= frame_columns(frames)
    if frames["approximate"].any():
        columns["frame.approximate"] = frames["approximate"].to_numpy()
    return base64.b64encode(block({**head, "kinds": kind_labels(frames["kind"])}, columns, IN_ORDER)).decode()


def _kind_chips(layout: Layout, kinds: NDArray[np.uint8]) -> list[still.Chip]:
    shares = kind_totals(layout, kinds)
    whole = int(layout.total[0, 0])
    return [
        still.Chip(f"s{kind_class(kind, 2)}", tone.label, share(shares[kind], whole))
        for kind, tone in TONES.items()
        if kind is not Kind.ROOT and shares[kind] > 0
    ]


def kind_totals(layout: Layout, kinds: NDArray[np.uint8]) -> list[int]:
    """For each kind, the total of its frames with their callees; a frame inside another of its kind does not count again."""
    bit = np.uint32(1) << kinds.astype(np.uint32)
    enclosing = np.zeros(len(layout), dtype=np.uint32)
    for level in nodes.levels(layout.depth):
        above = np.maximum(layout.parent[level], 0)
        enclosing[level] = enclosing[above] | bit[above]
    enclosing[0] = 0
    outermost = (enclosing & bit) == 0
    totals = np.zeros(len(Kind), dtype=np.int64)
    np.add.at(totals, kinds[outermost], layout.total[0][outermost])
    return [int(total) for total in totals]


def _diff_chips() -> list[still.Chip]:
    reach = len(DIFF_STEPS)
    names = {-reach: "gone", -2: "less", 0: "same", 2: "more", reach: "new"}
    return [still.Chip(f"s{step + reach}", name, "") for step, name in names.items()]


def _cdata(text: str) -> str:
    """Our own script and style: they contain no `]]>`, which `tests/unit/render/test_svg.py` checks."""
    return f"<![CDATA[\n{text}\n]]>"
