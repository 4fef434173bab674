"""The time of ranks, as tables for the terminal."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount, share
from aiflame.analyze.ranks.comparison import Ranks, median_and_longest
from aiflame.analyze.ranks.critical_path import Path
from aiflame.analyze.ranks.row import Row
from aiflame.analyze.ranks.stragglers import Late, where
from aiflame.render.terminal.columns import GAP, shared_widths
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM, WIDE

PARTS = 12
"""The number of stretches of a critical path that are shown, the longest ones."""


def print_ranks(comparison: Ranks, rows: int, console: Console | None = None) -> None:
    """Prints findings; a row for each rank; phases; collectives with a late rank; the paths of the median and the longest step."""
    console = console or Terminal()
    for finding in comparison.findings[:rows]:
        console.print(Text.assemble(("• ", "bold"), finding.sentence))
    if comparison.findings:
        console.print()
    shown = _shown(comparison.rows, rows)
    console.print(_ranks(shown, console.width))
    if len(shown) < len(comparison.rows):
        console.print(
            Text(
                f"{len(shown)} of {len(comparison.rows):,} ranks: those that others wait for, then those that compute most; -n shows more",
                "dim",
            )
        )
    if comparison.phases:
        console.print()
        console.print(_phases(comparison, console.width))
    lates = [late for late in comparison.lates if late.why is not None]
    if lates:
        console.print()
        console.print(_lates(lates, max(rows // 2, 1), console.width))
        console.print(
            Text(
                f"Some rank was late to {len(comparison.lates):,} of {comparison.collectives:,} collectives, "
                f"to {len(lates):,} of them by its own work",
                "dim",
            )
        )
    for path in median_and_longest(comparison.paths) if len(comparison.rows) > 1 else ():
        console.print()
        console.print(_path(path, console.width))
    for note in comparison.notes:
        console.print(Text(f"Note: {note}", "yellow"))
    if worst := max((residual for residual in comparison.residual_ns.values() if residual is not None), default=0):
        console.print(Text(f"Clocks of hosts agree to within {amount(worst, 'ns')}", "dim"))


def _shown(ranks: list[Row], rows: int) -> list[Row]:
    """The rows to show, in the order of ranks."""
    kept = sorted(ranks, key=lambda row: (-row.lost_ns, -row.compute_ns, row.rank))[:rows]
    return sorted(kept, key=lambda row: row.rank)


def _table(*headings: str, left: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True, overflow="ellipsis")
    return table


def _fitted(table: Table, width: int) -> Table:
    """rich would narrow all columns alike; numbers must stay whole, so the texts share the remaining width."""
    texts, left = [], width
    for column in table.columns:
        needed = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
        if column.justify == "right":
            column.width = needed
            left -= needed + GAP
        else:
            texts.append((column, needed))
    wanted = [needed for _, needed in texts]
    if texts and sum(wanted) > left - GAP * len(texts):
        for (column, _), needed in zip(texts, shared_widths(wanted, left - GAP * len(texts)), strict=True):
            column.width = needed
    return table


def _ranks(ranks: list[Row], width: int) -> Table:
    hosts = len({row.host for row in ranks}) > 1 and width >= WIDE
    copies = any(row.copies_ns for row in ranks) and width >= WIDE
    first = ["Rank", *(["Host"] if hosts else []), *(["Time"] if width >= MEDIUM else []), "Compute", "Comm.", "Exposed"]
    table = _table(*first, *(["Copies"] if copies else []), "Idle", "Overlap", "Waited", "Last", "Late by", left=("Host",))
    for row in ranks:
        whole = row.whole_ns
        table.add_row(
            Text(str(row.rank), "bold"),
            *([row.host] if hosts else []),
            *([amount(whole, "ns")] if width >= MEDIUM else []),
            share(row.compute_ns, whole),
            share(row.communication_ns, whole),
            Text(share(row.exposed_ns, whole), "red" if row.exposed_ns * 10 > whole else ""),
            *([share(row.copies_ns, whole)] if copies else []),
            share(row.idle_ns, whole),
            "" if row.overlap is None else f"{100 * row.overlap:.0f}%",
            share(row.waited_ns, whole) if row.communication_ns else "",
            Text(f"{row.last:,}" if row.last else "", "red"),
            Text(amount(row.lost_ns, "ns") if row.lost_ns else "", "red"),
        )
    return _fitted(table, width)


def _phases(comparison: Ranks, width: int) -> Table:
    table = _table("Step", "Compute", "Exposed", "Idle", "Slowest rank", "Phase", left=("Phase",))
    for one in comparison.phases:
        slowest = f"{one.slowest} ({amount(one.slowest_ns, 'ns')})"
        table.add_row(
            *(amount(value, "ns") for value in (one.whole_ns, one.compute_ns, one.exposed_ns, one.idle_ns)),
            slowest,
            Text(one.phase, "magenta"),
        )
    return _fitted(table, width)


def _lates(lates: list[Late], rows: int, width: int) -> Table:
    """A row for late arrivals with the same rank, place and reason: the worst one, and their number."""
    alike: dict[object, list[Late]] = {}
    for late in lates:
        alike.setdefault((late.rank, late.name, late.phase, late.layer, late.why), []).append(late)
    wide = width >= WIDE
    table = _table(
        "Last", "Times", "Late by", *(["Others waited"] if wide else []), "Step", "Collective", "Why", left=("Collective", "Why")
    )
    for late, *others in list(alike.values())[:rows]:
        why = late.why
        assert why is not None
        place = where(late.phase, late.layer)
        reason = " · ".join(part for part in (why.cause.name.lower(), where(why.phase, why.layer), why.what or why.op) if part)
        table.add_row(
            Text(f"rank {late.rank}", "bold"),
            f"{1 + len(others):,}",
            amount(late.late_ns, "ns"),
            *([amount(late.waited_ns, "ns")] if wide else []),
            str(late.step) if late.step >= 0 else "",
            f"{late.name} {late.number}" + (f", {place}" if place else ""),
            Text(reason, "red"),
        )
    return _fitted(table, width)


def _path(path: Path, width: int) -> Table:
    """The longest stretches, in the order of time."""
    heading = f"Critical path of step {path.step} ({amount(path.took_ns, 'ns')})"
    table = _table("Begins", "Takes", heading, left=(heading,))
    longest = sorted(path.stretches, key=lambda one: -one.took_ns)[:PARTS]
    for one in sorted(longest, key=lambda one: one.begin_ns):
        place = where(one.phase, one.layer)
        if one.does == "work":
            what = Text.assemble((f"rank {one.rank}", "bold"), f" works up to the collective in {place}" if place else " works")
        else:
            what = Text(f"communication in {place}" if place else "communication", "blue")
        table.add_row(amount(one.begin_ns, "ns"), amount(one.took_ns, "ns"), what)
    if remainder := path.took_ns - sum(one.took_ns for one in longest):
        table.add_row("", amount(remainder, "ns"), Text("the rest", "dim"))
    return _fitted(table, width)
