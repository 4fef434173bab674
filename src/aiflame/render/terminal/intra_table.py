"""The inside of kernels, as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount
from aiflame.analyze.intra.kernels import IntraKernel
from aiflame.analyze.intra.scopes import ScopeTime
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import GAP, MEDIUM

SHORTEST_NAME = 20
MARK = "~ "
"""Precedes the name of work that continues while the warp does other things."""


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
    console.print(_scopes(kernel.scopes[:rows], console.width >= MEDIUM))
    if len(kernel.scopes) > rows:
        console.print(Text(f"{len(kernel.scopes) - rows:,} more (-n shows them)", "dim"))
    if kernel.scopes:
        outside = max(1 - kernel.in_scopes, 0.0)
        console.print(Text(f"{outside:.1%} of the time of warps lies in no scope", "dim"))


def _scopes(scopes: list[ScopeTime], wide: bool) -> Table:
    numbers = {
        "%": [f"{100 * one.share:.1f}%" for one in scopes],
        "Own %": [f"{100 * one.own_share:.1f}%" for one in scopes],
        "Times": [f"{one.count:,}" for one in scopes],
        "Median": [_ns(one.median_ns) for one in scopes],
    }
    if wide:
        numbers |= {
            "p95": [_ns(one.p95_ns) for one in scopes],
            "Longest": [_ns(one.most_ns) for one in scopes],
            "Warps": [f"×{one.by_warp.ratio:.2f}" if one.by_warp else "" for one in scopes],
            "CTAs": [f"×{one.by_cta.ratio:.2f}" if one.by_cta else "" for one in scopes],
            "SMs": [f"×{one.by_sm.ratio:.2f}" if one.by_sm else "" for one in scopes],
        }
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for heading, cells in numbers.items():
        table.add_column(heading, justify="right", no_wrap=True, min_width=max(map(len, (heading, *cells))))
    table.add_column("Scope", no_wrap=True, overflow="ellipsis", min_width=SHORTEST_NAME)
    table.add_column("Where", no_wrap=True, overflow="ellipsis", style="dim")
    names = [Text("  " * one.depth + (MARK if one.beside else "") + one.name) for one in scopes]
    places = [Text(one.place.rpartition("/")[2]) for one in scopes]
    for row in zip(*numbers.values(), names, places, strict=True):
        table.add_row(*row)
    return table


def _ns(value: float) -> str:
    return amount(round(value), "ns")
