"""Divides the energy of CPU packages, and of the memory beside them, over CPU samples.

Between two readings of a package its energy is divided by CPU time, over the samples of that time and other work on the machine's CPUs.
Profiles do not record the package of a sample, so every sample gets a part of each package, of each host. Numbers are whole µJ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.energy.power import CPUS, Looks, looks
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.attribute.tree import CPU_TIME, ENERGY, Frame, Tree, assemble, frame_table
from aiflame.attribute.trees.cpu_tree import cpu_tree
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

ELSEWHERE = Frame("[energy of idle CPUs and of other programs]", Kind.UNATTRIBUTED)


def cpu_energy_tree(profile: Tables, detail: str = "function", by: Prefix | None = None) -> Tree:
    samples = (
        profile.scan("cpu_samples")
        .filter(pl.col("clock") == CLOCK[CPU_TIME.name])
        .select(
            "process",
            "id",
            "time_ns",
            ns=sample_ns().cast(pl.Int64),
        )
        .sort("time_ns", "process", "id")
        .collect()
    )
    time_ns = samples["time_ns"].clip(upper_bound=(1 << 62) - 1).cast(pl.Int64).to_numpy()
    energy, elsewhere = np.zeros(len(samples), dtype=np.int64), 0
    work = _busy(profile)
    for package in looks(profile, CPUS):
        mine, remainder = _share_out(package, time_ns, samples["ns"].to_numpy(), work)
        energy, elsewhere = energy + mine, elsewhere + remainder
    tree = cpu_tree(profile, ENERGY, detail, by, samples.select("process", "id", energy=pl.Series(energy)))
    return _beside(tree, ELSEWHERE, {tree.metrics[0].name: elsewhere})


def _share_out(package: Looks, time_ns: Ints, run_ns: Ints, work: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, int]:
    """The energy of each sample (sorted by time), and the remainder."""
    edge, energy = package.time_ns, np.diff(package.energy)
    at = np.searchsorted(edge, time_ns, side="left") - 1  # a sample covers the time before it
    here = np.flatnonzero((at >= 0) & (at < len(energy)))
    of_samples = np.bincount(at[here], run_ns[here], len(energy))
    busy = sum((np.diff(np.interp(edge, *of_host)) for of_host in work), np.zeros(len(energy)))
    part = np.divide(of_samples, np.maximum(of_samples, busy), out=np.zeros(len(energy)), where=of_samples > 0)
    mine = np.rint(energy * part).astype(np.int64)
    by_sample = np.zeros(len(time_ns), dtype=np.int64)
    by_sample[here] = scaled(at[here], run_ns[here], mine[at[here]])
    return by_sample, int((energy - mine).sum())


def _busy(profile: Tables) -> list[tuple[Ints, Ints]]:
    """For each host moments, and for each how long all its CPUs together had run until then, in ns. In a profile of several hosts, their
    names stand in front of those of devices, also of the whole machine, which has no name."""
    series = profile.table("telemetry_series").filter(pl.col("source") == "cpu", pl.col("name").is_in(["user", "system"]))
    series = series.with_columns(host=pl.col("device").str.extract(r"^(.*: )").fill_null(""))
    series = series.with_columns(device=pl.col("device").str.strip_prefix(pl.col("host")))
    work = []
    for (_,), of_host in sorted(series.partition_by("host", as_dict=True).items()):
        cores = of_host.filter(pl.col("device").str.starts_with("core "))["device"].n_unique()
        rows = (
            profile.scan("telemetry")
            .filter(pl.col("series").is_in(of_host.filter(pl.col("device") == "")["series"].to_list()))
            .group_by("time_ns")
            .agg(pl.col("value").sum())
            .sort("time_ns")
            .with_columns(pl.col("time_ns").cast(pl.Int64))
            .collect()
        )
        if len(rows) < 2 or not cores:
            continue
        time_ns = rows["time_ns"].to_numpy()
        grown = rows["value"].to_numpy()[:-1] / 100 * cores * np.diff(time_ns)
        work.append((time_ns, np.concatenate([[0], np.cumsum(grown)]).astype(np.int64)))
    return work


def _beside(tree: Tree, frame: Frame, values: Mapping[str, int]) -> Tree:
    """Adds a frame to the root of the tree."""
    return assemble(
        pl.concat([tree.frames, frame_table([frame])[1:]]),
        np.append(tree.parent, 0).astype(np.int32),
        np.append(tree.frame, len(tree.frames)).astype(np.uint32),
        {name: np.append(value, values.get(name, 0)) for name, value in tree.values.items()},
        tree.metrics,
    )
