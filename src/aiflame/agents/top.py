"""The tools `top` and `diff`: the heaviest functions, kernels, lines or layers, and the differences of two profiles."""

from __future__ import annotations

import re

from aiflame.agents.answer import Answer, Row, Value, quoted
from aiflame.agents.texts import text_rows
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.diff.comparison import compare
from aiflame.analyze.overview.scoped_tree import scoped_tree
from aiflame.analyze.top import top
from aiflame.api import Profile
from aiflame.attribute.groupings import CODE, LISTS
from aiflame.attribute.metrics import CALL_LINE, METRICS, is_own_counter, on_devices
from aiflame.attribute.transforms.filters import focus
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import GPU_STALLS, Kind
from aiflame.attribute.trees.build import default_metric, metrics
from aiflame.attribute.trees.how_to_record import how_to_record, why_empty
from aiflame.errors import AiflameError

TOP = "aiflame.mcp.top/2"
DIFF = "aiflame.mcp.diff/1"
_DETAIL = {"line": CALL_LINE, "stall": "instruction"}


def top_answer(profile: Profile, by: str, metric: str, only: str, rows: int, *, whole_run: bool = False) -> Answer:
    if by and by not in LISTS:
        raise AiflameError(f"cannot list by {quoted(by, 40)}: use {', '.join(LISTS)}")
    metric = metric or (GPU_STALLS.name if by == "stall" else default_metric(profile.store))
    there = metrics(profile.store)
    if (metric in METRICS or is_own_counter(metric)) and metric not in there:
        return Answer(TOP, {"nothing": _nothing(profile, metric, there)})
    grouping = by if by and LISTS[by].grouped else CODE
    scoped = scoped_tree(profile.store, metric, grouping, _DETAIL.get(by, "function"), whole_run=whole_run)
    tree = hide_interpreter_noise(scoped.tree)
    if only:
        try:
            tree = focus(tree, only)
        except re.error as error:
            raise AiflameError(f"focus {quoted(only, 60)} is no regular expression: {error}") from None
        if not len(tree.frames) or not tree.total(metric):
            raise AiflameError(
                f"no frame matches {quoted(only, 60)}, so there are no samples in it: try a shorter expression, or top without it"
            )
    of_kernels = on_devices(metric) and not set(tree.kinds().tolist()).isdisjoint((Kind.GPU_KERNEL, Kind.GPU_COPY))
    by = by or ("kernel" if of_kernels else "function")
    if not tree.total(metric):
        return Answer(TOP, {"scope": scoped.line.text, "nothing": f"no {tree.metric(metric).label} in this scope: call top with whole_run"})
    listed = top(tree, by)
    facts: dict[str, Value] = {
        "scope": scoped.line.text,
        **({"inference": scoped.line.inference_text} if scoped.line.inference is not None else {}),
        **({"idle": scoped.line.idle_text} if of_kernels and scoped.line.idle_text else {}),
        "by": by,
        "metric": metric,
        "unit": tree.metric(metric).unit,
        "total": tree.total(metric),
        "items": len(listed),
    }
    kinds = [Kind(kind).name.lower() for kind in listed["kind"].head(rows)]
    plain = text_rows(listed.drop("kind", "module").head(rows))
    return Answer(TOP, facts, untrusted_rows={"rows": [{**row, "kind": kind} for row, kind in zip(plain, kinds, strict=True)]})


def _nothing(profile: Profile, metric: str, there: list[str]) -> str:
    if not there:
        return f"nothing recorded: {why_empty(profile.store)}"
    return f"nothing recorded for {metric}, only for {', '.join(there)}; for {metric}, {how_to_record(profile.store, metric)}"


def diff_answer(base: Profile, new: Profile, by: str, metric: str, rows: int) -> Answer:
    comparison = compare(profile_analysis(base.store), profile_analysis(new.store), metric, by)
    step = comparison.step
    facts: dict[str, Value] = {}
    if step is not None:
        facts["step"] = {"base": step.base, "new": step.new, "low": step.low, "high": step.high, "beyond_noise": step.beyond}
    tables: list[Value] = []
    lists: dict[str, list[Row]] = {}
    for one in comparison.differences:
        differing = one.differing()
        tables.append(
            {"by": one.by, "metric": one.metric, "unit": one.unit, "per_step": one.per_step, "note": one.note, "rows": len(differing)}
        )
        lists[f"by_{one.by}"] = [_without_gaps(row) for row in text_rows(differing.head(rows))]
    facts["tables"] = tables
    if not any(lists.values()):
        facts["nothing"] = "no difference is beyond the noise"
    return Answer(DIFF, facts, untrusted_rows=lists)


def _without_gaps(row: Row) -> Row:
    """Without the columns of an interval that is unknown."""
    return {name: value for name, value in row.items() if value is not None and value != ""}
