"""The first screen of a report, and its tables, as data for the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.layer_groups import escaped, search
from aiflame.analyze.overview.step_series import step_series
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.ranks.comparison import Ranks
from aiflame.analyze.scope import has_steady_steps
from aiflame.analyze.tables.table import Column, TableOf
from aiflame.attribute.analysis import Analysis
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.blocks import Values, block
from aiflame.values import dataclass

SHARE = 10**9
"""A share of 1 as a whole number, as in blocks."""
THOUSANDTHS = 1000
MOMENT = "begin_ns"
"""The column of tables with a moment on the clock CLOCK_MONOTONIC."""
NOTHING = 0
"""The value for an unknown number; other numbers are stored plus one."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A few rows of a table on the first screen; each links to the flame graph with that grouping, and searches for the row's name."""

    table: str
    title: str
    name: str
    """Column of the names."""
    value: str
    share: str
    by: str
    search: Callable[[str], str]


def _exactly(name: str) -> str:
    return f"^{escaped(name)}$"


PANELS: tuple[tuple[Panel, ...], ...] = (
    (Panel("phases", "By phase", "phase", "total", "share", "phase", _exactly),),
    (
        Panel("layer-groups", "By layer", "group", "total", "share", "layer", search),
        Panel("layers", "By layer", "layer", "total", "share", "layer", search),
    ),
    (
        Panel("kernels", "By kernel", "short", "total", "share", "code", _exactly),
        Panel("functions", "By function", "name", "self", "self_share", "code", _exactly),
    ),
)
"""The panels of the first screen: the first of each group that has rows."""
MOST_ROWS = 8


def first_screen(
    profile: OpenedProfile,
    analysis: Analysis,
    tables: Sequence[TableOf],
    baseline: OpenedProfile | None,
    ranks: Callable[[], Ranks] | None = None,
) -> dict[str, object]:
    summary = summarize(analysis, profile.meta)
    # The page has a switch, so it need not explain why this is the whole run.
    scope = dataclasses.replace(summary.scope, why="") if has_steady_steps(analysis) else summary.scope
    by_name = {table.name: table for table in tables}
    chosen = (next((panel for panel in group if panel.table in by_name), None) for group in PANELS)
    return {
        "profile": profile.path.name,
        "started_ns": profile.meta.started.monotonic_ns,
        "summary": dataclasses.asdict(summary),
        "scope": scope.text,
        "inference": summary.scope.inference_text,
        "findings": [dataclasses.asdict(finding) for finding in findings(analysis, summary, ranks=ranks)],
        "steps": [dataclasses.asdict(series) for series in step_series(profile_analysis(analysis))],
        "panels": [_panel(panel, by_name[panel.table]) for panel in chosen if panel is not None],
        "baseline": baseline.path.name if baseline is not None else "",
    }


def _panel(panel: Panel, table: TableOf) -> dict[str, object]:
    rows = table.rows.select(panel.name, panel.value, panel.share).filter(pl.col(panel.value) != 0).head(MOST_ROWS).rows()
    unit = next(column.unit for column in table.columns if column.name == panel.value)
    return {
        "table": panel.table,
        "title": panel.title,
        "of": next(column.label for column in table.columns if column.name == panel.share).removeprefix("% of "),
        "unit": unit,
        "by": panel.by,
        "rows": [{"name": name, "value": value, "share": part, "search": panel.search(name)} for name, value, part in rows],
        "count": len(table.rows),
    }


def tables_block(tables: Sequence[TableOf], started_ns: int = 0) -> bytes:
    listed, columns = stored_tables(tables, started_ns)
    return block({"tables": listed}, columns)


def stored_tables(tables: Sequence[TableOf], started_ns: int = 0) -> tuple[list[dict[str, object]], dict[str, Values]]:
    """For the head, each table's title, columns and number of rows; and the columns `TABLE.COLUMN` with their values. Moments count from
    `started_ns`, when the recording began."""
    listed: list[dict[str, object]] = []
    columns: dict[str, Values] = {}
    for table in tables:
        described = []
        for column in table.columns:
            since = started_ns if column.name == MOMENT else 0
            values, scale = _stored(column, table.rows[column.name] - since if since else table.rows[column.name])
            columns[f"{table.name}.{column.name}"] = values
            described.append({**dataclasses.asdict(column), "scale": scale})
        listed.append({"name": table.name, "title": table.title, "rows": len(table.rows), "columns": described})
    return listed, columns


def _stored(column: Column, values: pl.Series) -> tuple[Values, int]:
    """Texts, or numbers times the scale, plus one."""
    if column.kind in ("text", "place"):
        return values.cast(pl.String), 0
    scale = SHARE if column.kind == "share" else THOUSANDTHS if values.dtype.is_float() else 1
    numbers = values.cast(pl.Float64).fill_nan(None) * scale if scale > 1 else values
    whole = numbers.round().cast(pl.Int64, strict=False) if scale > 1 else numbers.cast(pl.Int64, strict=False)
    return pl.select(pl.when(whole.is_null()).then(NOTHING).otherwise(whole + 1)).to_series().to_numpy().astype(np.int64), scale
