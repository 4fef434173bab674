"""A profile's parts are worked out once for all that is asked of it, and go when they are let go of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from report_profiles import META, training, with_symbols

from aiflame.analyze.device.profile_analysis import profile_analysis, release_analysis
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.tables.all import tables
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.devices.work import work
from aiflame.attribute.groupings import PREFIXES
from aiflame.attribute.meaning.context import of_devices, of_samples, release_samples
from aiflame.attribute.meaning.layers import layers
from aiflame.attribute.prefixes import BY_CODE_AND_MEANING
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.table import stack_table
from aiflame.attribute.timeline.whole import timeline
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.interface import Tables
from aiflame.render.report.document import Report


class Counting:
    """Tables that count how often each is read."""

    def __init__(self, profile: Tables) -> None:
        self.profile = profile
        self.reads: Counter[str] = Counter()

    def has(self, name: str) -> bool:
        return self.profile.has(name)

    def table(self, name: str) -> pl.DataFrame:
        self.reads[name] += 1
        return self.profile.table(name)

    def scan(self, name: str) -> pl.LazyFrame:
        return self.profile.scan(name)


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(with_symbols(training(tmp_path)))


def test_stacks_are_read_once_for_all_that_a_report_asks(counting: Counting) -> None:
    analysis = Analysis(counting)
    summary = summarize(analysis, META)
    findings(analysis, summary)
    tables(analysis)
    device_sites(analysis)
    cpu_sites(analysis, "cpu-time")
    timeline(analysis)
    assert counting.reads["stacks"] == 1


def test_symbols_are_searched_once_for_functions_and_once_for_torchs_frames(counting: Counting) -> None:
    """Layers and ops both need torch's frames, found by a dozen expressions that are matched with every symbol."""
    of_devices(counting)
    assert counting.reads["symbols"] == 2


def test_a_part_is_built_once_for_an_analysis_and_anew_for_a_profile(counting: Counting) -> None:
    analysis = Analysis(counting)
    assert functions(analysis) is functions(analysis)
    assert layers(analysis).stacks is stack_table(analysis).keys
    assert functions(counting) is not functions(counting)
    assert Analysis.of(analysis) is analysis


def test_a_part_that_was_released_is_built_again(counting: Counting) -> None:
    analysis = Analysis(counting)
    before = of_devices(analysis)
    analysis.used(of_devices)
    assert of_devices(analysis) is before
    analysis.shared = False
    analysis.used(of_devices)
    assert of_devices(analysis) is not before


def test_device_work_and_the_meaning_of_samples_are_kept_for_each_grouping_and_clock(counting: Counting) -> None:
    analysis = Analysis(counting)
    layer = PREFIXES["layer"]
    tree(analysis, "gpu-time", by="layer")
    tree(analysis, "cpu-time", by="layer")
    before = Counter(counting.reads)
    assert work(analysis, layer) is work(analysis, layer)
    assert work(analysis, layer) is not work(analysis, None)
    assert of_samples(analysis, 0) is of_samples(analysis, 0)
    assert counting.reads["stacks"] == before["stacks"]
    assert of_samples.part(0) in analysis._parts
    release_samples(analysis)
    assert of_samples.part(0) not in analysis._parts


def test_an_analysis_of_devices_that_was_released_can_be_asked_for_again(counting: Counting) -> None:
    analysis = Analysis(counting)
    first = profile_analysis(analysis)
    release_analysis(analysis)
    assert profile_analysis(analysis) is not first
    assert profile_analysis(analysis).sites.equals(first.sites)


def test_the_classes_of_launches_are_freed_with_the_last_block_that_needs_them(tmp_path: Path) -> None:
    report = Report(with_symbols(training(tmp_path)))
    large = (of_devices, profile_analysis, work.part(BY_CODE_AND_MEANING), of_samples.part(0))
    there = [(name, *(part in report.analysis._parts for part in large)) for name, _ in _blocks(report)]
    assert there[0][:4] == ("limits", True, True, True)
    assert ("facts.device", True, False, False, False) in there
    assert ("facts.cpu", True, False, False, True) in there
    assert there[-1][1:] == (False, False, False, False)


def _blocks(report: Report) -> Iterator[tuple[str, bytes]]:
    report.first_screen()
    return report.blocks()


def test_parts_of_parts_are_shared(counting: Counting) -> None:
    asked: list[str] = []

    @once
    def inner(analysis: Analysis) -> int:
        asked.append("inner")
        return 1

    @once
    def outer(analysis: Analysis) -> int:
        return inner(analysis) + inner(analysis)

    assert outer(counting) == 2
    assert asked == ["inner"]
