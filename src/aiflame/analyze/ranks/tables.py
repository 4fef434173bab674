"""The comparison of ranks as tables for people to sort and filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from aiflame.analyze.ranks.activity import Cause
from aiflame.analyze.ranks.comparison import Ranks
from aiflame.analyze.ranks.critical_path import Path
from aiflame.analyze.ranks.row import Row
from aiflame.analyze.ranks.stragglers import Late, Why
from aiflame.analyze.tables.table import Column, TableOf, number, share, table_of, text
from aiflame.profile.ranks.rank_numbers import write_ranks

MOST_LATE = 5_000
"""The most collectives that are listed, the costliest first."""
CAUSES = {
    Cause.COMPUTE: "computed",
    Cause.COPY: "copied",
    Cause.DATA: "waited for data",
    Cause.LAUNCH: "device waited for launches",
    Cause.HOST: "program did something else",
    Cause.WAIT: "slept, or waited off the CPU",
    Cause.UNKNOWN: "not known",
}
BROUGHT = "came late already"
"""Used instead of a cause: the lateness comes from an earlier collective."""


def rank_tables(comparison: Ranks, shown: Iterable[Path]) -> list[TableOf]:
    """`shown`: the paths whose stretches are listed."""
    listed = [_ranks(comparison), _stragglers(comparison), _lates(comparison), _phases(comparison), _stretches(shown), _clocks(comparison)]
    return [table for table in listed if len(table.rows)]


def named(rank: int) -> str:
    """The rank's name, as in the flame graph."""
    return f"rank {rank}"


def _ranks(comparison: Ranks) -> TableOf:
    rows = [
        (
            named(row.rank), row.host, row.steps, row.whole_ns, *_shares(row), row.overlap, row.waited_ns / max(row.whole_ns, 1),
            row.last, row.lost_ns, comparison.residual_ns.get(row.rank),
        )
        for row in comparison.rows
    ]  # fmt: skip
    columns = (
        text("rank", "Rank"),
        text("host", "Host"),
        number("steps", "Steps"),
        number("time", "Time", "ns"),
        share("compute", "Compute"),
        share("communication", "Comm."),
        share("exposed", "Exposed"),
        share("copies", "Copies"),
        share("idle", "Idle"),
        share("overlap", "Overlap"),
        share("waited", "Waited"),
        number("last", "Came last"),
        number("lost", "Late by", "ns"),
        number("clock", "Clock ±", "ns"),
    )
    kept = columns if len({row.host for row in comparison.rows}) > 1 else tuple(one for one in columns if one.name not in ("host", "clock"))
    return _table("ranks", "Ranks", kept, rows, columns)


def _shares(row: Row) -> tuple[float, ...]:
    times = (row.compute_ns, row.communication_ns, row.exposed_ns, row.copies_ns, row.idle_ns)
    return tuple(time / max(row.whole_ns, 1) for time in times)


def _stragglers(comparison: Ranks) -> TableOf:
    rows = [
        (
            named(one.rank), one.why.phase, one.why.layer, *_cause(one.why), one.name, one.times, one.of,
            one.lost_ns // max(one.times, 1), one.lost_ns, one.waited_ns, one.share,
        )
        for one in comparison.stragglers
    ]  # fmt: skip
    columns = (
        text("rank", "Rank"),
        text("phase", "Phase"),
        text("layer", "Layer"),
        text("cause", "Why"),
        text("what", "In"),
        text("collective", "Before"),
        number("times", "Came last"),
        number("of", "Of"),
        number("each", "Late by", "ns"),
        number("lost", "In all", "ns"),
        number("waited", "Others waited", "ns"),
        share("share", "% of the time"),
    )
    return _table("stragglers", "Stragglers", columns, rows)


def _lates(comparison: Ranks) -> TableOf:
    rows = [_late(late) for late in sorted(comparison.lates[:MOST_LATE], key=lambda late: -late.waited_ns)]
    columns = (
        text("collective", "Collective"),
        text("step", "Step"),
        text("phase", "Phase"),
        text("layer", "Layer"),
        text("rank", "Came last"),
        number("late", "Late by", "ns"),
        number("own", "By its own work", "ns"),
        number("waited", "Others waited", "ns"),
        number("waiting", "Ranks waited"),
        text("cause", "Why"),
        text("where", "Where"),
        text("what", "In"),
        text("group", "Group"),
        number("begin_ns", "Came at", "ns"),
    )
    return _table("lates", "Last arrivals", columns, rows)


def _late(late: Late) -> tuple[object, ...]:
    cause, what = _cause(late.why) if late.why is not None else (BROUGHT, "")
    where = " ".join(part for part in (late.why.phase, late.why.layer) if part) if late.why is not None else ""
    return (
        f"{late.name} {late.number}", str(late.step) if late.step >= 0 else "", late.phase, late.layer, named(late.rank),
        late.late_ns, late.own_ns, late.waited_ns, late.waiting, cause, where, what, late.group, late.at_ns,
    )  # fmt: skip


def _cause(why: Why) -> tuple[str, str]:
    return CAUSES[why.cause], why.what or (why.op if why.cause == Cause.COMPUTE else "")


def _phases(comparison: Ranks) -> TableOf:
    rows = [
        (one.phase or "[no phase]", one.whole_ns, one.compute_ns, one.exposed_ns, one.idle_ns, named(one.slowest), one.slowest_ns)
        for one in comparison.phases
    ]
    columns = (
        text("phase", "Phase"),
        number("whole", "Median", "ns"),
        number("compute", "Compute", "ns"),
        number("exposed", "Exposed", "ns"),
        number("idle", "Idle", "ns"),
        text("slowest", "Slowest rank"),
        number("slowest_ns", "It takes", "ns"),
    )
    return _table("phases", "Phases of a step", columns, rows)


def _stretches(shown: Iterable[Path]) -> TableOf:
    """The stretches of these paths, in the order of time."""
    does = {"work": "works", "communication": "communicates"}
    rows = [
        (
            named(one.rank), "works, all others wait" if one.decides else does[one.does], one.phase, one.layer,
            one.begin_ns, one.took_ns, one.took_ns / max(path.took_ns, 1), str(path.step),
        )
        for path in shown
        for one in path.stretches
    ]  # fmt: skip
    columns = (
        text("rank", "Rank"),
        text("does", "Does"),
        text("phase", "Up to the collective in"),
        text("layer", "Layer"),
        number("begin", "Begins after", "ns"),
        number("took", "Takes", "ns"),
        share("share", "% of the step"),
        text("step", "Step"),
    )
    return _table("stretches", "Critical path", columns, rows)


def _clocks(comparison: Ranks) -> TableOf:
    """The remaining uncertainty of each host's clock but the first."""
    hosts: dict[str, tuple[list[int], int | None]] = {}
    for row in comparison.rows:
        if row.rank in comparison.residual_ns:
            hosts.setdefault(row.host, ([], comparison.residual_ns[row.rank]))[0].append(row.rank)
    rows = [(host, write_ranks(ranks), len(ranks), residual) for host, (ranks, residual) in hosts.items()]
    columns = (text("host", "Host"), text("ranks", "Ranks"), number("count", "Of them"), number("residual", "Uncertain by ±", "ns"))
    return _table("clocks", "Clocks", columns, rows)


def _table(
    name: str, title: str, columns: tuple[Column, ...], rows: Sequence[tuple[object, ...]], of_rows: tuple[Column, ...] = ()
) -> TableOf:
    """`of_rows`: all columns of the rows, if there are more than the shown ones."""
    kinds = {"text": pl.String, "share": pl.Float64, "number": pl.Int64}
    schema = {column.name: kinds[column.kind] for column in of_rows or columns}
    return table_of(name, title, columns, pl.DataFrame(list(rows), schema=schema, orient="row"))
