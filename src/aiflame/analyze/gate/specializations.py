"""Triton kernels are named after their settings. If these changed between the sides, a kernel has different names: then it is compared
under its name as compiled, with all its specializations together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from aiflame.analyze.gate.code import Code
from aiflame.analyze.gate.run import Measured, Run
from aiflame.values import replace

KERNEL = "kernel"


def with_common_names(base: Sequence[Run], new: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The runs, in which kernels whose specializations differ between the sides are renamed."""
    before, after = _specializations(base), _specializations(new)
    differing = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    names = {short: name for side in (before, after) for name in differing for short in side[name]}
    if not names:
        return list(base), list(new)
    return [_renamed(run, names) for run in base], [_renamed(run, names) for run in new]


def _specializations(runs: Sequence[Run]) -> Mapping[str, set[str]]:
    """The short names of each name as compiled."""
    names: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for short, name in run.compiled.items():
            names[name].add(short)
    return names


def _renamed(run: Run, names: Mapping[str, str]) -> Run:
    values: dict[tuple[str, str], Measured] = {}
    for (metric, item), value in run.values.items():
        key = (metric, names.get(item, item) if metric == KERNEL else item)
        values[key] = _sum(values[key], value) if key in values else value
    places = {
        (metric, names.get(item, item) if metric == KERNEL else item): place for (metric, item), place in reversed(list(run.places.items()))
    }
    kernels: dict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for (item, aspect), fingerprints in run.code.kernels.items():
        kernels[names.get(item, item), aspect] |= fingerprints
    for short in run.compiled:
        if short in names:
            kernels[names[short], "specialization"] |= {short}
    return replace(run, values=values, places=places, code=Code(kernels, run.code.functions, run.code.libraries))


def _sum(one: Measured, other: Measured) -> Measured:
    steps = None if one.step is None or other.step is None else one.step + other.step
    return Measured(one.total + other.total, steps, tuple(map(sum, zip(one.blocks, other.blocks, strict=False))))
