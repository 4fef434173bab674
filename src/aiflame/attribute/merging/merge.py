"""A profile with the stalls of one run of a program, and the hardware counters of another."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.another_run import KERNEL, LAUNCHES, LAYER, NOWHERE, PLACE, RATES_THERE, VALUES, has_another_run
from aiflame.attribute.counters.intervals import has_counters
from aiflame.attribute.merging.matching import matched
from aiflame.attribute.merging.places import steps
from aiflame.attribute.merging.same_program import differences
from aiflame.errors import AiflameError
from aiflame.profile.folder.claims import new_id
from aiflame.profile.folder.meta import AnotherRun
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.copying import copied
from aiflame.profile.tables.interface import OpenedProfile, Tables
from aiflame.profile.tables.store import Profile
from aiflame.values import replace

_NAMES = {PLACE: "place", LAYER: "layer", KERNEL: "kernel", NOWHERE: "none"}
_BY = {
    "place": "by kernel, layer, phase and place in the step",
    "layer": "by kernel, layer and phase",
    "kernel": "by kernel alone",
}


def sampled_and_counted(one: OpenedProfile, other: OpenedProfile) -> tuple[Profile, Profile]:
    """The two in order: the one with samples of stalls, and the one with counters. Refuses others."""
    profiles = []
    for profile in (one, other):
        if not isinstance(profile, Profile):
            raise AiflameError(f"{profile.path} is a job of several ranks: merge recordings of one recorder")
        if profile.unfinished():
            raise AiflameError(f"{profile.path} is still being recorded: merge it when it has ended")
        if has_another_run(profile):
            raise AiflameError(f"{profile.path} is merged already, with {_of(profile)}: merge the recordings themselves")
        profiles.append(profile)
    if one.path.resolve() == other.path.resolve():
        raise AiflameError(f"{one.path} cannot be merged with itself: name the recording with stalls and the one with counters")
    counted = [profile for profile in profiles if has_counters(profile)]
    if len(counted) > 1:
        raise AiflameError(f"{one.path} and {other.path} both have GPU counters: record one with --gpu-counters off, for its stalls")
    if not counted:
        raise AiflameError(f"neither {one.path} nor {other.path} has GPU counters: record one with --gpu-counters on")
    sampled = next(profile for profile in profiles if profile is not counted[0])
    if not _rows(sampled, "gpu_samples"):
        raise AiflameError(f"{sampled.path} has no samples of GPU stalls: record it with --gpu-counters off, without --gpu-sampling off")
    for profile in profiles:
        if not _rows(profile, "kernels"):
            raise AiflameError(f"{profile.path} has no GPU kernel: there is nothing to merge")
    return sampled, counted[0]


def merge(sampled: Profile, counted: Profile, output: Path, *, force: bool = False) -> AnotherRun:
    """Writes a profile with all that was recorded in `sampled`, and the counts of `counted` for its kernels and copies. With `force`
    their commands, code and devices may differ."""
    differing = differences(sampled, counted)
    if differing and not force:
        raise AiflameError(
            f"{sampled.path} and {counted.path} were recorded of different programs: {'; '.join(differing)}:"
            " --force merges them nevertheless"
        )
    here, there = Analysis(sampled), Analysis(counted)
    result = matched(here, there)
    run = AnotherRun(
        counted.path.name,
        counted.meta.command,
        counted.meta.started,
        steps(there),
        steps(here),
        {_NAMES[match]: count for match, count in result.matches.items()},
        result.unmatched,
        result.only_there,
        result.scale,
        tuple(differing),
    )
    meta = replace(sampled.meta.with_notes(note(run)), id=new_id(), another_run=run)
    with copied(sampled, output, meta):
        new = open_profile(output)
        assert isinstance(new, Profile)
        for name, rows in ((RATES_THERE, result.rates), (LAUNCHES, result.launches), (VALUES, result.counters)):
            new.write_table(name, rows)
    return run


def note(run: AnotherRun) -> str:
    """One line for readers: whose counters these are, and how many launches have some."""
    every, none = sum(run.matched.values()), run.matched.get("none", 0)
    ways = [f"{run.matched[name]:,} {how}" for name, how in _BY.items() if run.matched.get(name)]
    steps_text = f" ({run.steps:,} steps there, {run.steps_here:,} here: means of each launch)" if run.steps != run.steps_here else ""
    uncounted = f"; {none:,} have none, {run.unmatched_time:.0%} of GPU time" if none else ""
    alone = f"; {run.alone:,} ran there alone" if run.alone else ""
    differing = f"; {'; '.join(run.differences)}" if run.differences else ""
    return (
        f"GPU counters are those of another run, {run.profile}{steps_text}: {every - none:,} of {every:,} kernels and copies have counts"
        f" ({', '.join(ways)}){uncounted}{alone}{differing}"
    )


def _rows(profile: Tables, name: str) -> bool:
    """Whether the table has any."""
    return bool(profile.scan(name).select(pl.len()).collect().item())


def _of(profile: Profile) -> str:
    return profile.meta.another_run.profile if profile.meta.another_run is not None else "another run"
