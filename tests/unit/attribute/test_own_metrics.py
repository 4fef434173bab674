"""Values of stacks that are no time, as metrics of the profile that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from trees import paths

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.diff.comparison import compare
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.trees.build import default_metric, metrics, tree
from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import CPU, WALL, Sampled
from aiflame.profile.folder.door import Folder

BIG = 5 * 10**9


def made(folder: Path, times: int = 1) -> Profile:
    """main calls grow, which takes 7 bytes and gives back 2, and look, counted 3 times; CPU time of main, twice as long as a period
    can be."""
    making = Making(Folder.new(folder))
    rows = Sampled(making)
    one = rows.process(7, "prog")
    thread = rows.thread(one, 8, "worker")
    main = rows.call(one, -1, NamedFrame("main"))
    grow, look = (rows.call(one, main, NamedFrame(name)) for name in ("grow", "look"))
    space, count, clash = rows.kind("alloc_space", "bytes", "bytes taken"), rows.kind("odd name", "objects"), rows.kind("bytes", "bytes")
    rows.value(one, thread, grow, space, 7 * times)
    rows.value(one, thread, grow, space, -2 * times)
    rows.value(one, thread, look, count, 3, at=5)
    rows.value(one, 0, -1, clash, 11)
    rows.time(one, thread, main, CPU, BIG, at=6)
    rows.finish()
    making.finish("test", (), "0")
    return aiflame.open(folder)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return made(tmp_path / "one")


def test_each_kind_is_a_metric_with_its_unit(profile: Profile) -> None:
    assert metrics(profile.store) == ["cpu-time", "alloc_space", "odd-name", "bytes-bytes"]
    shown = [tree(profile.store, name).metrics[0] for name in ("alloc_space", "odd-name", "bytes-bytes")]
    assert [(one.unit, one.label) for one in shown] == [("bytes", "bytes taken"), ("objects", "odd name"), ("bytes", "bytes")]


def test_values_lie_at_their_stacks(profile: Profile) -> None:
    owner = ("prog (7)", "worker")
    assert paths(tree(profile.store, "alloc_space"), "alloc_space") == {(*owner, "main", "grow"): 5}
    assert paths(tree(profile.store, "odd-name"), "odd-name") == {(*owner, "main", "look"): 3}
    assert paths(tree(profile.store, "bytes-bytes"), "bytes-bytes") == {
        ("prog (7)", "[unattributed: thread not recorded]", "[unattributed: no stack]"): 11
    }
    assert paths(tree(profile.store, "cpu-time"), "cpu-time") == {(*owner, "main"): BIG}


def test_every_grouping_keeps_the_sum(profile: Profile) -> None:
    for by in ("layer", "op", "phase", "process", "thread", "module", "file", "kind"):
        assert tree(profile.store, "alloc_space", by).total("alloc_space") == 5, by


def test_a_profile_without_time_has_its_first_kind_by_default(tmp_path: Path) -> None:
    making = Making(Folder.new(tmp_path / "bare"))
    rows = Sampled(making)
    rows.value(rows.process(), 0, rows.call(0, -1, NamedFrame("f")), rows.kind("samples", "samples"), 4)
    rows.finish()
    making.finish("test", (), "0")
    bare = aiflame.open(tmp_path / "bare")
    assert default_metric(bare.store) == "samples"
    assert paths(bare.tree(), "samples") == {("f",): 4}  # no process is known, so that none is shown


def test_time_comes_first(profile: Profile) -> None:
    assert default_metric(profile.store) == "cpu-time"


def test_an_unknown_metric_is_named_with_those_that_exist(profile: Profile) -> None:
    with pytest.raises(AiflameError, match=r"unknown metric 'alloc'.*alloc_space, odd-name"):
        tree(profile.store, "alloc")
    with pytest.raises(AiflameError, match="has no wall-time, only cpu-time, alloc_space"):
        tree(profile.store, "wall-time")


def test_two_profiles_are_compared_by_a_metric_that_both_have(profile: Profile, tmp_path: Path) -> None:
    other = made(tmp_path / "other", times=3)
    first, second = (profile_analysis(Analysis(one.store)) for one in (profile, other))
    comparison = compare(first, second, "alloc_space", "function")
    rows = comparison.differences[0].rows.select("name", "base", "new", "difference").rows()
    assert rows == [("grow", 5.0, 15.0, 10.0)]
    assert comparison.differences[0].unit == "bytes"


def test_sites_have_the_values_and_only_known_moments(profile: Profile) -> None:
    analysis = Analysis(profile.store)
    space, count = cpu_sites(analysis, "alloc_space"), cpu_sites(analysis, "odd-name")
    assert (space.domain, count.domain) == ("own-0", "own-1")
    assert space.leaves["alloc_space"].sum() == 5
    assert space.moments["alloc_space"].sum() == 0
    assert count.moments["odd-name"].sum() == 3


def test_waits_and_long_times_are_kept_whole(tmp_path: Path) -> None:
    making = Making(Folder.new(tmp_path / "long"))
    rows = Sampled(making)
    hours = 100 * 3600 * 10**9 + 1
    rows.time(rows.process(), 0, rows.call(0, -1, NamedFrame("f")), WALL, hours, waits=True)
    rows.finish()
    making.finish("test", (), "0")
    assert paths(aiflame.open(tmp_path / "long").tree(), "wall-time") == {("f", "[waiting]"): hours}


def test_absurd_times_are_refused(tmp_path: Path) -> None:
    rows = Sampled(Making(Folder.new(tmp_path / "absurd")))
    for _ in range(20_000):
        rows.time(rows.process(), 0, -1, CPU, 1 << 62)
    with pytest.raises(AiflameError, match="thousands of years"):
        rows.finish()
