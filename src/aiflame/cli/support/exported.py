"""The files of `aiflame export`, a function for each format, from its arguments."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TextIO

import polars as pl

from aiflame.analyze.top import top
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.chunks import count
from aiflame.attribute.groupings import CODE, LISTS, OF_TREES
from aiflame.attribute.metrics import CALL_LINE
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.transforms.filters import focus, without_idle
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import default_metric, metrics, tree_with_meaning
from aiflame.attribute.trees.build import tree as tree_of
from aiflame.attribute.trees.rank_groups import ranks_by_name
from aiflame.cli.support.parser import UsageError
from aiflame.cli.support.view import folded, opened, selected
from aiflame.errors import AiflameError
from aiflame.exchange.writers import chrome, collapsed, csv, firefox, hatchet, kineto, otlp, parquet, pprof, speedscope, torch_memory
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.labelled import MEANING, Labelled, labelled, together, without_limits
from aiflame.memory import keep_freed_memory
from aiflame.profile.schema.kinds import Kind
from aiflame.render.output import new_folder
from aiflame.values import dataclass

GROUPINGS = tuple(dict.fromkeys((*OF_TREES, *LISTS)))
MOST_WITH_STEPS = 500_000
"""Launches and samples of a profile whose values say their step: each stack has then a value for each step."""
_WITHOUT_STEPS = f"values do not say their step, since there are more than {MOST_WITH_STEPS:,} launches and samples"


@dataclass(frozen=True, slots=True)
class Written:
    facts: Mapping[str, object]
    """for programs"""
    notes: tuple[str, ...] = ()
    """for people"""


def collapsed_stacks(options: Namespace, file: TextIO) -> Written:
    shown = selected(options, _grouping(options))
    collapsed.write(shown.tree, shown.metric, file)
    return _of_metric(shown.tree, shown.metric)


def speedscope_stacks(options: Namespace, file: TextIO) -> Written:
    shown = selected(options, _grouping(options))
    speedscope.write(shown.tree, shown.metric, file)
    return _of_metric(shown.tree, shown.metric)


def hatchet_tree(options: Namespace, file: TextIO) -> Written:
    """All metrics, unless one was asked for."""
    by = _grouping(options)
    profile = opened(options.profile, options.ranks)
    store = Analysis(profile.store)
    metric = options.metric or default_metric(store)
    tree = together([_shaped(tree_of(store, name, by, options.detail), options) for name in _metrics(profile, options)])
    tree = _searched(without_limits(tree), options, metric)
    hatchet.write(tree, metric, file)
    return _of_metrics(tree)


def csv_rows(options: Namespace, file: TextIO) -> Written:
    """The rows of `top`, of the whole run."""
    by = options.by or ""
    if by and by not in LISTS:
        raise UsageError(f"export --to csv lists by {', '.join(LISTS)}, not by {by!r}")
    shown = selected(options, by if by in LISTS and LISTS[by].grouped else CODE)
    of_kernels = bool({int(Kind.GPU_KERNEL), int(Kind.GPU_COPY)} & set(shown.tree.kinds().tolist()))
    rows = top(shown.tree, by or ("kernel" if of_kernels else "function"), shown.metric)
    kinds = pl.Series("kind", [Kind(kind).name.lower() for kind in rows["kind"].to_list()], dtype=pl.String)
    csv.write(rows.with_columns(kinds, metric=pl.lit(shown.metric), unit=pl.lit(shown.tree.metric(shown.metric).unit)), file)
    return _of_metric(shown.tree, shown.metric)


def pprof_profile(options: Namespace, file: BinaryIO) -> Written:
    of, facts, metric, notes = _labelled(options)
    pprof.write(of, facts, metric, file)
    return Written({"metrics": {one.name: int(of.samples[one.name].sum()) for one in of.metrics}}, notes)


def otlp_profile(options: Namespace, file: BinaryIO) -> Written:
    of, facts, metric, notes = _labelled(options)
    otlp.write(of, facts, metric, file)
    return Written({"metrics": {one.name: int(of.samples[one.name].sum()) for one in of.metrics}}, notes)


def chrome_trace(options: Namespace, file: TextIO) -> Written:
    profile = _with_times(options)
    events = chrome.write(profile.store, Facts.of(profile.meta), file, samples=not options.no_samples)
    return Written({"events": events})


def kineto_trace(options: Namespace, file: TextIO) -> Written:
    profile = _with_times(options)
    events = kineto.write(profile.store, Facts.of(profile.meta), file, samples=not options.no_samples)
    return Written({"events": events})


def firefox_profile(options: Namespace, file: TextIO) -> Written:
    profile = _with_times(options)
    markers = firefox.write(profile.store, Facts.of(profile.meta), file, samples=not options.no_samples)
    return Written({"events": markers})


def torch_snapshot(options: Namespace, file: BinaryIO) -> Written:
    profile = _with_times(options)
    started = profile.meta.started
    since_1970 = started.realtime_ns - started.monotonic_ns if started.realtime_ns else 0
    return Written({"events": torch_memory.write(profile.store, file, since_1970)})


def parquet_tables(options: Namespace, folder: Path) -> Written:
    profile = opened(options.profile, options.ranks)
    with new_folder(folder) as folder_of_tables:
        return Written({"tables": parquet.write(profile.store, folder_of_tables)})


def _grouping(options: Namespace) -> str:
    by: str = options.by or CODE
    if by not in OF_TREES:
        raise UsageError(f"export --to {options.to} groups by {', '.join(OF_TREES)}, not by {by!r}")
    return by


def _with_times(options: Namespace) -> Profile:
    keep_freed_memory()
    return opened(options.profile, options.ranks)


def _labelled(options: Namespace) -> tuple[Labelled, Facts, str, tuple[str, ...]]:
    profile = opened(options.profile, options.ranks)
    store = Analysis(profile.store)
    many = sum(count(store.scan(name)) for name in ("launches", "cpu_samples")) > MOST_WITH_STEPS
    meaning = Prefix(tuple(name for name in MEANING.columns if name != "step"), code=True) if many else MEANING
    metric = options.metric or default_metric(store)
    trees = [_shaped(tree_with_meaning(store, name, meaning, options.detail or CALL_LINE), options) for name in _metrics(profile, options)]
    tree = _searched(without_limits(together(trees)), options, metric)
    return labelled(tree, ranks_by_name(store)), Facts.of(profile.meta), metric, (_WITHOUT_STEPS,) if many else ()


def _metrics(profile: Profile, options: Namespace) -> list[str]:
    """The one that was asked for, else all, the default first."""
    if options.metric:
        tree_of(profile.store, options.metric)  # says how to record it, where it is not there
        return [options.metric]
    there = metrics(profile.store)
    if not there:
        tree_of(profile.store)
    return sorted(there, key=lambda name: name != default_metric(profile.store))


def _shaped(tree: Tree, options: Namespace) -> Tree:
    shown = folded(tree, raw=options.raw, my_code=options.my_code)
    return without_idle(shown) if options.no_idle else shown


def _searched(tree: Tree, options: Namespace, metric: str) -> Tree:
    if not options.focus:
        return tree
    searched = focus(tree, options.focus)
    if not len(searched.frames) or not any(searched.total(one.name) for one in searched.metrics):
        raise AiflameError(f"no frame matches {options.focus!r}: try a shorter expression")
    return searched


def _of_metric(tree: Tree, name: str) -> Written:
    metric = tree.metric(name)
    return Written({"metric": name, "unit": metric.unit, "total": tree.total(name)})


def _of_metrics(tree: Tree) -> Written:
    return Written({"metrics": {metric.name: tree.total(metric.name) for metric in tree.metrics}})
