"""The tools `findings` and `evidence`: the largest avoidable costs of a profile, and the rows behind one of them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.agents.answer import Answer, Row, Value, quoted
from aiflame.agents.kernel import kernel_answer
from aiflame.agents.texts import percent, text_rows
from aiflame.analyze.findings.listing import Listed, Listing, listing
from aiflame.analyze.overview.scoped_tree import scoped_tree
from aiflame.analyze.ranks.one_profile import answer, facts_of_ranks
from aiflame.analyze.scheduling import by_series
from aiflame.analyze.scope import analysis_of
from aiflame.analyze.scoped_waiting import scoped_waiting
from aiflame.analyze.tables.all import tables
from aiflame.analyze.top import top
from aiflame.analyze.waiting import by_line
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CALL_LINE, CLOCK, FUNCTION
from aiflame.attribute.transforms.filters import focus
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import WALL_TIME
from aiflame.errors import AiflameError
from aiflame.resolve.device.stall_reasons import MEANINGS

SCHEMA = "aiflame.mcp.findings/2"
EVIDENCE = "aiflame.mcp.evidence/1"
MOST = 99
NEXT = "call findings with an id for its evidence, annotate for a kernel's lines, source for the text of a line"


def findings_answer(profile: Profile, rows: int, *, whole_run: bool = False) -> Answer:
    listed = listing(profile.store, MOST, whole_run=whole_run)
    total = listed.total
    facts: dict[str, Value] = {
        "duration_ns": listed.summary.duration_ns,
        "scope": listed.summary.scope.text,
        **({"inference": listed.summary.scope.inference_text} if listed.summary.scope.inference is not None else {}),
        "exit_status": listed.summary.exit_status,
        "metric": listed.summary.metric,
        "total": total.total if total is not None else 0,
        "unit": total.unit if total is not None else "",
        "missing": list(listed.missing),
        "next": NEXT if listed.findings else "",
    }
    names = {
        "profile": quoted(listed.profile),
        "command": quoted(listed.summary.command),
        "notes": [quoted(note) for note in listed.notes[:5]],
    }
    every = [_row(one) for one in listed.findings]
    return Answer(SCHEMA, facts | _beyond(len(every), rows), {"findings": every[:rows]}, names)


def evidence_answer(profile: Profile, id: str, rows: int, *, whole_run: bool = False) -> Answer:
    """The rows behind the finding with this id."""
    listed = listing(profile.store, MOST, whole_run=whole_run)
    one = next((one for one in listed.findings if one.id == id), None)
    if one is None:
        ids = ", ".join(one.id for one in listed.findings)
        raise AiflameError(f"this profile has no finding {quoted(id, 60)}: " + (f"it has {ids}" if ids else _nothing(listed)))
    view = one.finding.view
    whole_run |= one.finding.of_whole_run
    if view.view == "kernels" and view.kernel:
        return kernel_answer(profile, view.kernel, rows, None, {"finding": _row(one)})
    if view.view == "ranks":
        compared = answer(facts_of_ranks(profile.store))
        plain = pl.DataFrame([{"rank": row.rank, "overlap": row.overlap} for row in compared.rows])
    elif view.table:
        plain = _of_table(profile, one, whole_run=whole_run)
    elif view.view == "timeline" and view.metric == WALL_TIME.name:
        seen = scoped_waiting(analysis_of(profile.store, whole_run=whole_run))
        plain = by_line(seen) if seen is not None else pl.DataFrame()
    elif view.view == "timeline" and not view.metric:
        plain = by_series(Analysis(profile.store))
    else:
        by, detail = ("line", CALL_LINE) if view.metric in CLOCK else ("function", FUNCTION)
        scoped = scoped_tree(profile.store, view.metric or listed.summary.metric, view.by or "code", detail, whole_run=whole_run)
        tree = focus(hide_interpreter_noise(scoped.tree), view.search)
        plain = top(tree, by).select("name", "self", "total", "self_percent", "file", "line").head(rows)
    return Answer(EVIDENCE, {"finding": _row(one)}, untrusted_rows={"rows": text_rows(plain.head(rows))})


def _of_table(profile: Profile, one: Listed, *, whole_run: bool) -> pl.DataFrame:
    """The rows of a table of the report that the finding refers to."""
    view = one.finding.view
    table = next((table for table in tables(analysis_of(profile.store, whole_run=whole_run)) if table.name == view.table), None)
    if table is None:
        return pl.DataFrame()
    if not view.column:
        return table.rows
    name = pl.col(view.column)
    about = [(name == wanted) | name.str.starts_with(f"{wanted}.") for wanted in view.names]
    return table.rows.filter(pl.any_horizontal(about)) if about else table.rows


def _row(one: Listed) -> Row:
    finding = one.finding
    stall = finding.view.stall
    return {
        "id": one.id,
        "kind": finding.kind,
        "share": percent(finding.share),
        "may_win": percent(finding.recoverable),
        "fix": one.fix,
        **({"stall": stall, "stall_means": MEANINGS[stall]} if stall in MEANINGS else {}),
        "untrusted": dict(_texts(one)),
    }


def _texts(one: Listed) -> Iterator[tuple[str, str]]:
    view = one.finding.view
    texts = {"sentence": one.finding.sentence, "line": view.place, "kernel": view.kernel}
    yield from ((name, quoted(text)) for name, text in texts.items() if text)


def _beyond(count: int, rows: int) -> dict[str, Value]:
    return {"more_findings": count - rows} if count > rows else {}


def _nothing(listed: Listing) -> str:
    return " ".join(listed.missing) or "it has none"
