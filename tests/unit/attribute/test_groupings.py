"""The table of groupings: every view reads it, and each of its rows works where it says."""

from __future__ import annotations

import pytest
from report_profiles import training, with_symbols

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.diff.comparison import compare
from aiflame.analyze.top import top
from aiflame.attribute.counters.names import COUNTED
from aiflame.attribute.groupings import CATEGORY, GROUPING_ROWS, LISTS, OF_TREES, RANK, compared_by
from aiflame.attribute.metrics import COMPARED, METRIC_ROWS, METRICS
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.profile.tables.store import Profile


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return with_symbols(training(tmp_path_factory.mktemp("p")))


@pytest.mark.parametrize("by", [name for name in OF_TREES if name not in (RANK, CATEGORY)])
def test_a_tree_can_be_grouped_by_each(profile: Profile, by: str) -> None:
    assert tree(profile, "gpu-time", by=by).total("gpu-time") == tree(profile, "gpu-time").total("gpu-time")


@pytest.mark.parametrize("by", [name for name in LISTS if name not in (RANK, CATEGORY)])
def test_each_list_is_made_or_names_the_missing_data(profile: Profile, by: str) -> None:
    of = tree(profile, "gpu-time", by=by if LISTS[by].grouped else "code")
    try:
        assert int(top(of, by)["self"].sum()) == of.total("gpu-time")
    except AiflameError as error:
        assert LISTS[by].lacking in str(error) != ""


def test_the_report_has_the_groupings_with_segments(profile: Profile) -> None:
    on_devices = [one.name for one in device_sites(profile).groupings]
    assert on_devices == [row.name for row in GROUPING_ROWS if row.on_devices and row.name != RANK]
    on_cpus = [one.name for one in cpu_sites(profile, "cpu-time").groupings]
    assert on_cpus == [row.name for row in GROUPING_ROWS if row.on_cpus and row.name not in (RANK, CATEGORY)], "a grouping for memory alone"


def test_comparisons_come_in_the_order_of_their_evidence(profile: Profile) -> None:
    assert compared_by(METRIC_ROWS["gpu-time"]) == ("kernel", "op", "layer", "line", "phase", "family")
    assert compared_by(METRIC_ROWS["gpu-latency"]) == ("kernel", "stall", "layer", "line", "op", "phase", "family")
    assert compared_by(METRIC_ROWS["bytes"]) == ("copy", "op", "layer", "line", "phase")
    assert compared_by(METRIC_ROWS["wall-time"]) == ("function", "op", "layer", "line", "phase")
    assert compared_by(METRIC_ROWS["energy"]) == ()
    analysis = profile_analysis(profile)
    compared = [one.by for one in compare(analysis, analysis, "gpu-time").differences]
    assert compared == [by for by in compared_by(METRIC_ROWS["gpu-time"])[:4] if by in compared] != []


def test_every_metric_says_how_to_record_it_or_depends_on_the_machine(profile: Profile) -> None:
    assert [name for name, row in METRIC_ROWS.items() if not row.record] == ["energy"]
    assert set(COMPARED) == set(METRICS) - {"energy", "could-win", *COUNTED}
    assert set(metrics(profile)) <= set(METRICS)


def test_names_are_given_once() -> None:
    names = [row.name for row in GROUPING_ROWS]
    assert sorted(set(names)) == sorted(names)


def test_no_place_in_comparisons_is_given_twice() -> None:
    places = [(kind, place) for row in GROUPING_ROWS for kind, place in row.compared.items()]
    assert len(set(places)) == len(places)
