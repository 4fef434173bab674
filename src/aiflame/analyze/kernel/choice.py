"""Chooses the kernel that a name means: its exact name, otherwise a part of it, otherwise a regular expression; for a Triton kernel also
the names of its specializations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

from aiflame.attribute.devices.records import LONGEST_NS
from aiflame.attribute.devices.stall_samples import sampled_functions, samples_of_counter
from aiflame.attribute.meaning.specializations import variants
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.resolve.names.readable import clean, cut
from aiflame.values import dataclass

_NAMED = 5
_NAME_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that ran or was sampled, or a device function that was not inlined, which has no launches."""

    name: str
    """as compiled"""
    short: str
    full: str
    launches: int
    gpu_time_ns: int
    samples: int
    specializations: tuple[str, ...] = ()
    """Readable names of a Triton kernel's specializations."""

    @property
    def weight(self) -> tuple[int, int, str]:
        return self.samples, self.gpu_time_ns, self.name


def kernels(profile: OpenedProfile, in_steps: pl.DataFrame | None = None) -> list[Kernel]:
    """All kernels of a profile, the hottest first: by samples, then by GPU time. `in_steps`: only their launches there count
    (`scope.kernels_in_steps`); the step of a sample is unknown."""
    executed = (
        profile.scan("kernels")
        .group_by("process", "shape")
        .agg(launches=pl.len(), time=took_ns())
        .join(profile.scan("kernel_shapes").select("process", "name", shape="id"), on=["process", "shape"])
        .group_by("name")
        .agg(pl.col("launches").sum(), pl.col("time").sum())
    )
    sampled = (
        samples_of_counter(profile, not_issued=False)
        .group_by("process", "function")
        .agg(samples=pl.col("count").sum())
        .join(sampled_functions(profile).lazy(), on=["process", "function"])
        .group_by("name")
        .agg(pl.col("samples").sum())
    )
    if in_steps is not None:
        executed = executed.select("name").join(in_steps.lazy(), on="name", how="left")
    every = executed.join(sampled, on="name", how="full", coalesce=True).collect()
    names = _names(profile)
    readable = dict(variants(profile).group_by("name").agg(pl.col("readable").unique().sort()).rows())
    listed = []
    for name, launches, time, samples in every.select("name", "launches", "time", "samples").rows():
        short, full = names.get(name, (name, name))
        listed.append(Kernel(name, short, full, launches or 0, time or 0, samples or 0, tuple(readable.get(name, ()))))
    return sorted(listed, key=lambda kernel: kernel.weight, reverse=True)


def took_ns() -> pl.Expr:
    """The GPU time of rows of `kernels`, summed; damaged records are limited."""
    ended = pl.col("end_ns") > pl.col("start_ns")
    return pl.when(ended).then(pl.col("end_ns") - pl.col("start_ns")).otherwise(0).clip(upper_bound=LONGEST_NS).sum().cast(pl.Int64)


def choose(every: Sequence[Kernel], wanted: str) -> list[Kernel]:
    """The kernels that `wanted` matches, the hottest first; at least one."""
    if not every:
        raise AiflameError("no GPU kernel ran in this profile: record a program that uses a GPU")
    for matches in _matchers(wanted):
        if chosen := [kernel for kernel in every if any(map(matches, (kernel.short, kernel.name, kernel.full, *kernel.specializations)))]:
            return chosen
    raise AiflameError(f"no kernel matches {cut(clean(wanted), _NAME_WIDTH)!r}: {hottest(every)}")


def hottest(every: Sequence[Kernel]) -> str:
    """A line that suggests the hottest kernels."""
    return "the hottest are " + ", ".join(cut(clean(kernel.short), _NAME_WIDTH) for kernel in every[:_NAMED])


def _matchers(wanted: str) -> list[Callable[[str], bool]]:
    part = wanted.casefold()
    matchers: list[Callable[[str], bool]] = [lambda name: name == wanted, lambda name: part in name.casefold()]
    try:
        expression = re.compile(wanted, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return matchers
    return [*matchers, lambda name: expression.search(name) is not None]


def _names(profile: OpenedProfile) -> dict[str, tuple[str, str]]:
    """Short and full names by names as compiled; recordings with OpenCL alone have no such table."""
    if not profile.has("kernel_names"):
        return {}
    rows = profile.table("kernel_names").select("name", "short", "full").rows()
    return {name: (short or name, full or name) for name, short, full in rows}
