"""The time of ranks, as tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiflame.analyze.amounts import amount, share
from aiflame.analyze.ranks.comparison import Ranks, median_and_longest
from aiflame.analyze.ranks.critical_path import Path
from aiflame.analyze.ranks.row import Row
from aiflame.analyze.ranks.stragglers import Late, where
from aiflame.render.terminal.columns import cut_middle, table_of
from aiflame.render.terminal.console import Terminal
from aiflame.render.terminal.top_table import MEDIUM, WIDE

PARTS = 12
"""The number of stretches of a critical path that are shown, the longest ones."""
_HOST = 24
"""The most characters of a host's name."""


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


def _ranks(ranks: list[Row], width: int) -> Table:
    hosts = len({row.host for row in ranks}) > 1 and width >= WIDE
    copies = any(row.copies_ns for row in ranks) and width >= WIDE
    numbers: dict[str, list[str | Text]] = {"Rank": [Text(str(row.rank), "bold") for row in ranks]}
    if hosts:
        numbers["Host"] = [cut_middle(row.host, _HOST) for row in ranks]
    if width >= MEDIUM:
        numbers["Time"] = [amount(row.whole_ns, "ns") for row in ranks]
    numbers["Compute"] = [share(row.compute_ns, row.whole_ns) for row in ranks]
    numbers["Comm."] = [share(row.communication_ns, row.whole_ns) for row in ranks]
    numbers["Exposed"] = [Text(share(row.exposed_ns, row.whole_ns), "red" if row.exposed_ns * 10 > row.whole_ns else "") for row in ranks]
    if copies:
        numbers["Copies"] = [share(row.copies_ns, row.whole_ns) for row in ranks]
    numbers["Idle"] = [share(row.idle_ns, row.whole_ns) for row in ranks]
    numbers["Overlap"] = ["" if row.overlap is None else f"{100 * row.overlap:.0f}%" for row in ranks]
    numbers["Waited"] = [share(row.waited_ns, row.whole_ns) if row.communication_ns else "" for row in ranks]
    numbers["Last"] = [Text(f"{row.last:,}" if row.last else "", "red") for row in ranks]
    numbers["Late by"] = [Text(amount(row.lost_ns, "ns") if row.lost_ns else "", "red") for row in ranks]
    return table_of(numbers, {}, width, left=("Host",))


def _phases(comparison: Ranks, width: int) -> Table:
    phases = comparison.phases
    parts = {"Step": "whole_ns", "Compute": "compute_ns", "Exposed": "exposed_ns", "Idle": "idle_ns"}
    numbers = {heading: [amount(getattr(one, name), "ns") for one in phases] for heading, name in parts.items()}
    numbers["Slowest rank"] = [f"{one.slowest} ({amount(one.slowest_ns, 'ns')})" for one in phases]
    return table_of(numbers, {"Phase": [Text(one.phase, "magenta") for one in phases]}, width)


def _lates(lates: list[Late], rows: int, width: int) -> Table:
    """A row for late arrivals with the same rank, place and reason: the worst one, and their number."""
    alike: dict[object, list[Late]] = {}
    for late in lates:
        alike.setdefault((late.rank, late.name, late.phase, late.layer, late.why), []).append(late)
    shown = list(alike.values())[:rows]
    worst = [late for late, *_ in shown]
    numbers: dict[str, list[str | Text]] = {
        "Last": [Text(f"rank {late.rank}", "bold") for late in worst],
        "Times": [f"{len(same):,}" for same in shown],
        "Late by": [amount(late.late_ns, "ns") for late in worst],
    }
    if width >= WIDE:
        numbers["Others waited"] = [amount(late.waited_ns, "ns") for late in worst]
    numbers["Step"] = [str(late.step) if late.step >= 0 else "" for late in worst]
    texts: dict[str, list[str | Text]] = {
        "Collective": [", ".join(part for part in (f"{late.name} {late.number}", where(late.phase, late.layer)) if part) for late in worst],
        "Why": [Text(_reason(late), "red") for late in worst],
    }
    return table_of(numbers, texts, width)


def _reason(late: Late) -> str:
    why = late.why
    assert why is not None
    return " · ".join(part for part in (why.cause.name.lower(), where(why.phase, why.layer), why.what or why.op) if part)


def _path(path: Path, width: int) -> Table:
    """The longest stretches, in the order of time."""
    longest = sorted(path.stretches, key=lambda one: -one.took_ns)[:PARTS]
    begins: list[str | Text] = []
    takes: list[str | Text] = []
    what: list[str | Text] = []
    for one in sorted(longest, key=lambda one: one.begin_ns):
        place = where(one.phase, one.layer)
        begins.append(amount(one.begin_ns, "ns"))
        takes.append(amount(one.took_ns, "ns"))
        if one.does == "work":
            what.append(Text.assemble((f"rank {one.rank}", "bold"), f" works up to the collective in {place}" if place else " works"))
        else:
            what.append(Text(f"communication in {place}" if place else "communication", "blue"))
    if remainder := path.took_ns - sum(one.took_ns for one in longest):
        begins.append("")
        takes.append(amount(remainder, "ns"))
        what.append(Text("the rest", "dim"))
    heading = f"Critical path of step {path.step} ({amount(path.took_ns, 'ns')})"
    return table_of({"Begins": begins, "Takes": takes}, {heading: what}, width)
