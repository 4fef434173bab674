"""The block `ranks` of a report: the data of its page of ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from aiflame.analyze.ranks.page import RankPage, ShownPath
from aiflame.analyze.ranks.steps import StepMap
from aiflame.attribute.arrays.types import Ints
from aiflame.render.blocks import Values, block
from aiflame.render.report.overview import stored_tables

WORK, COMMUNICATION, DECIDES = 0, 1, 2
"""Kinds of stretches of a critical path."""


def ranks_block(page: RankPage, started_ns: int = 0) -> bytes:
    """The head has the tables (as in the block `tables`), the sentences, and other single values. Columns: those of the tables, `map.first`
    and `map.NAME` (ranks × columns, µs + 1, 0: none), `path.*` (a row for each step), `stretch.*` and `work.*` (of all paths,
    `path.stretches` and `path.ranks` of each)."""
    listed, columns = stored_tables(page.tables, started_ns)
    comparison = page.comparison
    head = {
        "tables": listed,
        "findings": [dataclasses.asdict(one) for one in comparison.findings],
        "notes": comparison.notes,
        "ranks": [row.rank for row in comparison.rows],
        "met": comparison.collectives,
        "late": {"all": len(comparison.lates), "own": sum(one.why is not None for one in comparison.lates)},
        "rules": sorted({row.rule for row in comparison.rows}),
        "map": _map(page.steps, columns) if page.steps is not None else None,
        "telling": [{"name": name, "step": step} for name, step in page.telling],
        "left_out": page.left_out,
    }
    _paths(page.paths, columns)
    return block(head, columns, frozenset({"map.first", "path.step", "path.begin"}))


def _map(steps: StepMap, columns: dict[str, Values]) -> dict[str, object]:
    columns["map.first"] = steps.first
    for one in steps.quantities:
        columns[f"map.{one.name}"] = (
            np.where(np.isnan(one.values), 0, np.nan_to_num(one.values) / 1000 + 1).round().astype(np.int64).ravel()
        )
    quantities = [{"name": one.name, "label": one.label, "says": one.says, "most": one.most_ns} for one in steps.quantities]
    return {"last": steps.last, "columns": len(steps.first), "quantities": quantities}


def _paths(paths: list[ShownPath], columns: dict[str, Values]) -> None:
    columns |= {
        "path.step": _numbers(one.path.step for one in paths),
        "path.begin": _numbers(one.begin_ns for one in paths),
        "path.took": _numbers(one.path.took_ns for one in paths),
        "path.communication": _numbers(one.path.communication_ns for one in paths),
        "path.stretches": _numbers(len(one.path.stretches) for one in paths),
        "path.ranks": _numbers(len(one.work) for one in paths),
    }
    stretches = [one for shown in paths for one in shown.path.stretches]
    columns |= {
        "stretch.rank": _numbers(one.rank for one in stretches),
        "stretch.does": _numbers(COMMUNICATION if one.does == "communication" else DECIDES if one.decides else WORK for one in stretches),
        "stretch.begin": _numbers(one.begin_ns for one in stretches),
        "stretch.took": _numbers(one.took_ns for one in stretches),
    }
    work = [one for shown in paths for one in shown.work]
    columns |= {"work.rank": _numbers(rank for rank, _ in work), "work.took": _numbers(took for _, took in work)}


def _numbers(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
