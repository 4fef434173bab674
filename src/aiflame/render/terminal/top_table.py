"""Lists as tables for the terminal: aligned, with bars if there is room for them, plain in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import FLOP_RATE, amount, share
from aiflame.analyze.idle_share import idle_share
from aiflame.analyze.overview.scope_line import ScopeLine
from aiflame.analyze.phases import WHOLE
from aiflame.analyze.step_times import Steps
from aiflame.attribute.groupings import GROUPINGS
from aiflame.attribute.tree import Metric, Tree
from aiflame.profile.schema.kinds import Kind
from aiflame.render.terminal.columns import leave_room, table_of
from aiflame.render.terminal.console import Terminal
from aiflame.resolve.device.stall_reasons import meaning

BAR = 16
LIMIT = "limit_percent"
"""A column that lists have if hardware counters were recorded."""
NAMES = 28
"""The least width of names, in columns, if limits are shown."""
LEAST_USEFUL = (
    "",
    "Total",
    "Mean",
    "SMs",
    "Launches",
    "Bound by",
    "FLOP/byte",
    "Tensor",
    "Memory",
    "Operations",
    "% total",
    "Could win",
)
"""Columns that are removed first beside limits, where names need their room."""
SMALL_ERROR = 1.0
"""In percentage points: smaller errors are not shown."""
NARROW, MEDIUM, WIDE = 40, 72, 100
"""Terminal widths from which on the table also has the share with callees, its amount and the place, and bars."""
STYLES = {
    Kind.PYTHON: "magenta",
    Kind.C: "red",
    Kind.CPP: "yellow",
    Kind.OS_KERNEL: "dark_orange",
    Kind.GPU_KERNEL: "cyan",
    Kind.GPU_LINE: "cyan",
    Kind.GPU_SCOPE: "cyan",
    Kind.GPU_STALL: "green",
    Kind.GPU_COPY: "blue",
    Kind.GPU_IDLE: "bright_black",
    Kind.CPU_LINE: "yellow",
    Kind.WAIT: "blue",
    Kind.STEP: "magenta",
    Kind.PHASE: "magenta",
    Kind.LAYER: "magenta",
    Kind.REGION: "magenta",
    Kind.OP: "yellow",
    Kind.FAMILY: "cyan",
    Kind.UNATTRIBUTED: "bright_black",
}


def print_top(answer: pl.DataFrame, tree: Tree, metric: str, by: str = "function", console: Console | None = None) -> None:
    """Prints the rows of `analyze.top`, heaviest first."""
    console = console or Terminal()
    console.print(top_table(answer, tree, metric, by, console.width))
    kind = tree.metric(metric)
    console.print(Text(f"{kind.label}: {amount(tree.total(metric), kind.unit)} in all", style="dim"))
    if note := idle_note(tree, metric):
        console.print(Text(note, style="dim"))


def print_scope(
    line: ScopeLine,
    steps: Steps | None = None,
    *,
    idle: bool,
    beside: Sequence[str] = (),
    empty: str = "",
    console: Console | None = None,
) -> None:
    """Prints the scope of the table below, its inference, how idle devices were, other things `beside` the table, and the wall-clock times
    of steps. `empty`: why there is no table."""
    console = console or Terminal()
    lines = [line.with_switch(), line.inference_text, line.idle_text if idle else "", *beside]
    if steps is not None:
        if steps.count == 1:
            lines.append(f"1 step by the clock: {amount(steps.median_ns, 'ns')}")
        else:
            lengths = f"median {amount(steps.median_ns, 'ns')}, {amount(steps.min_ns, 'ns')} to {amount(steps.max_ns, 'ns')}"
            lines.append(f"{steps.count:,} steps by the clock: {lengths}; the slowest after warm-up is Step.{steps.slowest}")
    for text in filter(None, lines):
        console.print(Text(text, style="dim"))
    if empty:
        console.print(Text(empty, style="yellow"))


def print_steps(steps: pl.DataFrame, metric: Metric, console: Console | None = None, *, sampled: bool = False) -> None:
    """Prints the times of steps, and of each of their phases (`analyze.phases.over_steps`). `sampled`: a step may have no sample."""
    console = console or Terminal()
    rows = steps.select("phase", "steps", "total", "min", "median", "max")
    columns = {"Total": "total", "Shortest": "min", "Median": "median", "Longest": "max"}
    numbers = {heading: [amount(value, metric.unit) for value in rows[column]] for heading, column in columns.items()}
    names = [
        Text(f"Step ({count:,} step{'s' * (count != 1)}{' with samples' if sampled else ''})", "bold")
        if phase == WHOLE
        else Text(phase, STYLES[Kind.PHASE])
        for phase, count in rows.select("phase", "steps").rows()
    ]
    console.print(table_of(numbers, {"In a step": names}, console.width))
    console.print()


def idle_note(tree: Tree, metric: str) -> str:
    """How to leave idle time out, if it takes more than half of the table."""
    part = idle_share(tree, metric)
    return f"The GPU was idle in {100 * part:.1f}% of it: --no-idle leaves that out" if part > 0.5 else ""


def top_table(answer: pl.DataFrame, tree: Tree, metric: str, by: str, width: int) -> Table:
    """The table, for a terminal of this width."""
    unit, whole = tree.metric(metric).unit, tree.total(metric)
    own, total = answer["self"].to_list(), answer["total"].to_list()
    numbers: dict[str, Sequence[str | Text]] = {"Self": [amount(value, unit) for value in own], "%": [share(value, whole) for value in own]}
    of_counters = _of_counters(answer) if width >= WIDE else {}
    if width >= WIDE and not of_counters:
        longest = max([*own, 1])
        numbers[""] = [Text(bar(value / longest, BAR), "green") for value in own]
    # Kernels and stalls have no callees: their totals are their own values.
    if width >= MEDIUM and own != total:
        numbers["Total"] = [amount(value, unit) for value in total]
    if width >= NARROW and own != total:
        numbers["% total"] = [share(value, whole) for value in total]
    if "launches" in answer.columns and width >= MEDIUM:
        numbers["Launches"] = [f"{count:,}" if count else "" for count in answer["launches"]]
    if "mean" in answer.columns and width >= MEDIUM:
        numbers["Mean"] = ["" if mean is None else amount(round(mean), unit) for mean in answer["mean"]]
    numbers |= of_counters
    if LIMIT in answer.columns and width >= MEDIUM:
        numbers["% limit"] = [_percent(*values) for values in answer.select(LIMIT, "limit_error").rows()]
        numbers["Could win"] = ["" if won is None else amount(won, "ns") for won in answer["could_win"]]
    if LIMIT in answer.columns and width >= WIDE and (answer["bound_by"] != "").any():
        numbers["Bound by"] = answer["bound_by"].to_list()
    if "layers" in answer.columns and width >= MEDIUM and (answer["layers"] > 1).any():
        numbers["Layers"] = [f"{count:,}" for count in answer["layers"]]
    texts = {GROUPINGS[by].heading: [Text(name, STYLES.get(Kind(kind), "")) for name, kind in answer.select("name", "kind").rows()]}
    if by in ("function", "line") and width >= MEDIUM:
        texts["Where"] = [Text(where(*place), "dim") for place in answer.select("file", "line", "module").rows()]
    if by == "stall" and width >= MEDIUM:
        texts["Meaning"] = [Text(meaning(name), "dim") for name in answer["name"]]

    if LIMIT in answer.columns or of_counters:
        leave_room(numbers, LEAST_USEFUL, width, min(NAMES, max([text.cell_len for text in texts[GROUPINGS[by].heading]], default=0)))
    # The end of a path names the layer.
    return table_of(numbers, texts, width, left=("",), keep_ends=by == "layer")


def _of_counters(answer: pl.DataFrame) -> dict[str, list[str]]:
    """Columns of hardware counters, and of modelled operations."""
    columns = {}
    if "dram_rate" in answer.columns:
        columns["Memory"] = ["" if rate is None else f"{rate / 1e9:,.0f} GB/s" for rate in answer["dram_rate"]]
    for name, heading in (("tensor", "Tensor"), ("sm_active", "SMs")):
        if name in answer.columns:
            columns[heading] = ["" if part is None else f"{100 * part:.0f}%" for part in answer[name]]
    if "flop_rate" in answer.columns:
        columns["Operations"] = ["" if rate is None else amount(rate, FLOP_RATE) for rate in answer["flop_rate"]]
        columns["FLOP/byte"] = ["" if number is None else f"{number:,.0f}" for number in answer["intensity"]]
    return columns


def _percent(part: float | None, error: float | None) -> str:
    """`71%`, or for an estimate with its error: `71±4%`."""
    if part is None:
        return ""
    return f"{part:.0f}±{error:.0f}%" if error and error >= SMALL_ERROR else f"{part:.0f}%"


def bar(part: float, width: int) -> str:
    """A bar of eighths of a character: a part of 1 fills the width."""
    eighths = round(max(0.0, min(1.0, part)) * width * 8)
    eighth = eighths % 8
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighth] if eighth else "")


def where(file: str, line: int, module: str) -> str:
    """The place of a function: the last two parts of its file and its line, otherwise its library."""
    if not file:
        return module
    short = "/".join(file.rsplit("/", 2)[-2:])
    return f"{short}:{line}" if line else short
