"""The metric of a profile's memory at a moment that a person names: peak, end, oom, the number of a step, or seconds."""

from __future__ import annotations

import re

import polars as pl

from aiflame.attribute.meaning.context import profile_steps
from aiflame.attribute.memory.metrics import AT, AT_A_MOMENT, base_name, memory_metrics
from aiflame.attribute.memory.moments import EXAMPLES, PEAK, Moment, first_ns, stretch
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables

_STEP = re.compile(r"\d{1,18}", re.ASCII)
MOMENTS = f"the number of a step, {EXAMPLES}"


def at_moment(profile: Tables, metric: str, at: str) -> str:
    """The name of the metric at the moment; `metric` "": the first of the profile's that has one."""
    there = [name for name in memory_metrics(profile) if name in AT_A_MOMENT]
    if not metric and not there:
        raise AiflameError(f"this profile has no memory to look at: record with --gpu-memory or --host-memory, or use it without --at {at}")
    base = base_name(metric or there[0])
    if base not in AT_A_MOMENT:
        raise AiflameError(f"--at names a moment of memory, and {metric} is none: use --metric {' or '.join(AT_A_MOMENT)}")
    if at == PEAK:
        return base
    return f"{base}{AT}{_stretch_of_step(profile, int(at)) if _STEP.fullmatch(at) else _known(at)}"


def _known(at: str) -> str:
    try:
        return Moment.parse(at).name
    except AiflameError:
        raise AiflameError(f"--at {at}: no moment: use {MOMENTS}") from None


def _stretch_of_step(profile: Tables, number: int) -> str:
    """The time of a step, in all processes that have it."""
    rows = profile_steps(profile).rows
    of_step = rows.filter(pl.col("step") == number)
    if of_step.is_empty():
        numbers = rows["step"].to_numpy()
        have = f"only steps {numbers.min()} to {numbers.max()}" if len(numbers) else "no steps"
        raise AiflameError(f"--at {number}: this profile has {have}")
    first = first_ns(profile)
    return stretch(int(of_step["begin_ns"].to_numpy().min()) - first, int(of_step["end_ns"].to_numpy().max()) - first)
