"""The inside of kernels, as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.intra.kernels import IntraKernel
from aiflame.analyze.intra.scopes import ScopeTime
from aiflame.render.terminal.columns import leave_room, table_of
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM

MARK = "~ "
"""Precedes the name of work that continues while the warp does other things."""
_NAMES = 24
"""The least width of names and places, in columns."""


def print_intra(kernels: list[IntraKernel], rows: int, console: Console | None = None) -> None:
    console = console or Terminal()
    for number, kernel in enumerate(kernels):
        if number:
            console.print()
        _print(kernel, rows, console)


def _print(kernel: IntraKernel, rows: int, console: Console) -> None:
    launches = f"{kernel.launches} launch{'es' if kernel.launches != 1 else ''} of {amount(round(kernel.took_ns), 'ns')}"
    some = f" in {kernel.ctas_read:,} of {kernel.ctas:,} CTAs" if kernel.ctas_read < kernel.ctas else ""
    described = f"  {kernel.place}  {launches}, {kernel.records:,} records of {kernel.recorded_warps} of {kernel.warps} warps{some}"
    console.print(Text.assemble((kernel.short, "bold"), (described, "dim")), soft_wrap=True)
    for warning in kernel.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), warning), soft_wrap=True)
    for finding in kernel.findings:
        console.print(Text(f"• {finding.sentence}"), soft_wrap=True)
    console.print()
    console.print(_scopes(kernel.scopes[:rows], console.width))
    if len(kernel.scopes) > rows:
        console.print(Text(f"{len(kernel.scopes) - rows:,} more (-n shows them)", "dim"))
    if kernel.scopes:
        outside = max(1 - kernel.in_scopes, 0.0)
        console.print(Text(f"{outside:.1%} of the time of warps lies in no scope", "dim"))


def _scopes(scopes: list[ScopeTime], width: int) -> Table:
    numbers: dict[str, Sequence[str | Text]] = {
        "%": [f"{100 * one.share:.1f}%" for one in scopes],
        "Own %": [f"{100 * one.own_share:.1f}%" for one in scopes],
        "Times": [f"{one.count:,}" for one in scopes],
        "Median": [_ns(one.median_ns) for one in scopes],
    }
    if width >= MEDIUM:
        numbers |= {
            "p95": [_ns(one.p95_ns) for one in scopes],
            "Longest": [_ns(one.most_ns) for one in scopes],
            "Warps": [f"×{one.by_warp.ratio:.2f}" if one.by_warp else "" for one in scopes],
            "CTAs": [f"×{one.by_cta.ratio:.2f}" if one.by_cta else "" for one in scopes],
            "SMs": [f"×{one.by_sm.ratio:.2f}" if one.by_sm else "" for one in scopes],
        }
    leave_room(numbers, ("p95", "SMs", "CTAs", "Own %"), width, _NAMES)
    names = [Text("  " * one.depth + (MARK if one.beside else "") + one.name) for one in scopes]
    places = [Text(one.place.rpartition("/")[2], "dim") for one in scopes]
    return table_of(numbers, {"Scope": names, "Where": places}, width)


def _ns(value: float) -> str:
    return amount(round(value), "ns")
