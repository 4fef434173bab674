"""Memory that grows step by step, and the line that holds the most of it at the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.memory.growth import Growth, growth
from aiflame.analyze.memory.holders import holders
from aiflame.analyze.memory.refusals import refusals
from aiflame.analyze.memory.what_if import EXPANDABLE, EXPANDABLE_SETTING, FRESH_GRADIENTS, FUSED, checkpoints, estimates
from aiflame.analyze.places import short_place
from aiflame.analyze.scope import steady_scope
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.memory_categories import NAMES, Category
from aiflame.attribute.memory.blocks import HOST
from aiflame.attribute.memory.metrics import AT_A_MOMENT, GPU_BYTES, HOST_BYTES, memory_metrics
from aiflame.attribute.memory.moments import Moment
from aiflame.attribute.transforms.filters import focus
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

LEAST_ACTIVATIONS = 0.25
"""Of the peak."""
WORTH_IT = 0.95
"""Of the peak: an estimate above that is not worth a sentence."""
LEAST_PART = 0.1
"""Of the peak: the line that holds the most of it is a finding from here on."""
_Row = TypeVar("_Row")
_MOST = 3
"""Places that grow."""


def memory_findings(profile: Analysis) -> Iterator[Finding]:
    if not memory_metrics(profile):
        return
    whole = steady_scope(profile) is not None
    yield from _refused(profile, whole=whole)
    growing = sorted(growth(profile), key=lambda one: (-one.grown, one.place, one.function))
    for one, others in _alike(growing, lambda one: (one.memory == HOST, one.function, one.place))[:_MOST]:
        shown = _view(one.memory, one.function, one.place)
        yield Finding(_grows(one) + others, one.share, shown, "memory-grows", recoverable=one.share, of_whole_run=whole)
    for metric in (name for name in AT_A_MOMENT if name in memory_metrics(profile)):
        yield from _activations(profile, metric, whole=whole)
        yield from _changes(profile, metric, whole=whole)
    grown = {(one.memory == HOST, one.place) for one in growing}
    largest = [one for one in _largest(profile) if (one.memory == HOST, one.place) not in grown]
    largest.sort(key=lambda one: (-one.share, one.memory, one.place))
    for top_one, others in _alike(largest, lambda one: (one.memory == HOST, one.function, one.place)):
        memory, peak, place = _name(top_one.memory), amount(top_one.peak, "bytes"), _at(top_one.place)
        sentence = f"{top_one.share:.0%} of {memory} at its peak of {peak} come from {top_one.function}(){place}{others}"
        view = _view(top_one.memory, top_one.function, top_one.place)
        yield Finding(sentence, top_one.share, view, "memory-peak", of_whole_run=whole)


@dataclass(frozen=True, slots=True)
class _Holder:
    """The line that holds the most of one memory in one process at its peak."""

    memory: str
    function: str
    place: str
    share: float
    peak: int


def _largest(profile: Analysis) -> Iterator[_Holder]:
    """Of each process and memory, where it is worth a sentence."""
    for (_, memory), rows in holders(profile, Moment()).partition_by("process", "memory", as_dict=True, maintain_order=True).items():
        peak = int(rows["bytes"].sum())
        own = rows.filter(~pl.col("importing"))
        if own.is_empty():
            continue
        file, line, function, held = own.select("file", "line", "function", "bytes").row(0)
        share = held / peak if peak else 0.0
        if share >= LEAST_PART and not function.startswith("["):
            yield _Holder(str(memory), function, f"{file}:{line}" if file else "", share, peak)


def _alike(rows: Sequence[_Row], key: Callable[[_Row], object]) -> list[tuple[_Row, str]]:
    """The first of each group of equal keys, and words for the others of it: ranks do the same."""
    groups: dict[object, list[_Row]] = {}
    for one in rows:
        groups.setdefault(key(one), []).append(one)
    return [(first, _more(len(others))) for first, *others in groups.values()]


def _more(count: int) -> str:
    if not count:
        return ""
    return f"; likewise in {count} more process{'es' if count > 1 else ''} or device{'s' if count > 1 else ''}"


def _refused(profile: Analysis, *, whole: bool) -> Iterator[Finding]:
    """The first allocation of each memory that failed, and the line and the category that held the most then."""
    for one in refusals(profile):
        view = _view(one.memory, "", one.place)
        yield Finding(one.sentence, 1.0, view, "memory-refused", recoverable=1.0, of_whole_run=whole)


def _at(place: str) -> str:
    return f" ({short_place(place)})" if place else ""


def _activations(profile: Analysis, metric: str, *, whole: bool) -> Iterator[Finding]:
    """Activations that fill a good part of the peak, and the layers that saved most of them."""
    drawn = tree(profile, metric, CATEGORY)
    saved = focus(drawn, f"^{escaped(NAMES[Category.ACTIVATIONS])}$")
    peak, held = drawn.total(metric), saved.total(metric) if len(saved.frames) else 0
    share = held / peak if peak else 0.0
    if share < LEAST_ACTIVATIONS:
        return
    of_layers = top(saved, "layer", metric, alike=True) if np.isin(saved.kinds(), (Kind.LAYER,)).any() else top(saved, CATEGORY, metric)[:0]
    of_layers = of_layers.filter(pl.col("kind") == int(Kind.LAYER))
    by = f", {of_layers['self'][0] / held:.0%} of them by {of_layers['name'][0]}" if len(of_layers) else ""
    memory = "the host's memory" if metric == HOST_BYTES else "GPU memory"
    sentence = f"{share:.0%} of {memory} at the peak ({amount(peak, 'bytes')}) are activations saved for backward{by}"
    estimate = checkpoints(profile, metric)
    of_all = estimate is not None and abs(estimate.peak - peak) < (1 - WORTH_IT) * peak  # it is that of one process
    if estimate is not None and of_all and estimate.then < WORTH_IT * estimate.peak:
        sentence += f"; checkpoints around {estimate.group} would lower the peak to about {amount(estimate.then, 'bytes')}"
    view = Evidence("flame", metric, CATEGORY, f"^{escaped(NAMES[Category.ACTIVATIONS])}$")
    yield Finding(sentence, share, view, "memory-activations", of_whole_run=whole)


def _changes(profile: Analysis, metric: str, *, whole: bool) -> Iterator[Finding]:
    """Changes of the optimizer, of gradients and of the allocator that would lower the peak."""
    for one in estimates(profile, metric):
        share = 1 - one.then / one.peak
        if one.change in (FUSED, FRESH_GRADIENTS, EXPANDABLE) and share >= 1 - WORTH_IT:
            name = _name(one.memory)
            then, peak = (amount(value, "bytes") for value in (one.then, one.peak))
            sentence = f"{name[0].upper()}{name[1:]} would peak at about {then} in place of {peak} with {one.change}"
            if one.change == EXPANDABLE:
                sentence = f"torch's allocator would hold at most about {then} of {name} in place of {peak} with {EXPANDABLE_SETTING}"
            yield Finding(sentence, share, Evidence("flame", metric, CATEGORY), "memory-change", recoverable=share, of_whole_run=whole)


def _grows(one: Growth) -> str:
    pace = f" by {amount(round(one.pace), 'bytes')} a {'step' if one.of_steps else 'second'}" if one.pace else ""
    end = f"{amount(one.grown, 'bytes')} at the end of the run, {one.share:.0%} of the live bytes"
    name = _name(one.memory)
    by = f"; it is {'' if one.holder.sure else 'probably '}held by {one.holder.text}" if one.holder else ""
    return f"{name[0].upper()}{name[1:]} grows{pace}: memory from {one.function}(){_at(one.place)} is never freed, {end}{by}"


def _name(memory: str) -> str:
    return "the host's memory" if memory == HOST else f"{memory}'s memory"


def _view(memory: str, function: str, place: str) -> Evidence:
    metric = HOST_BYTES if memory == HOST else GPU_BYTES
    return Evidence("flame", metric, "code", f"^{escaped(function)}$" if function else "", place=place)
