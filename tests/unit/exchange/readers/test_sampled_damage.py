"""Damaged files of sampling profilers: a profile that every view can read, or an error in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from damage import content, damaged_copies, survives
from sampled_examples import GECKO

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.own_metrics import clocks
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.trees.build import metrics, tree
from aiflame.exchange.readers.formats import FORMATS, format_of

FOLDER = Path(__file__).parents[3] / "data" / "traces"
FILES = [
    "perf-script/header_srcline_records.txt.gz",
    "pprof/go_heap.pb.gz",
    "speedscope/pyspy_threads.json.gz",
    "cpuprofile/node20.json.gz",
    "pyinstrument/tree.json.gz",
    "austin/full.txt.gz",
    "collapsed/pyspy_threads.txt.gz",
]
NAMES = {one.name: one for one in FORMATS}
COPIES, READ = 200, 6


def read_all(folder: Path) -> None:
    profile = aiflame.open(folder)
    analysis = Analysis(profile.store)
    for metric in metrics(profile.store):
        whole = tree(analysis, metric).total(metric)
        assert whole == tree(analysis, metric, "module").total(metric)
        if metric in clocks(analysis):
            assert cpu_sites(analysis, metric).leaves[metric].sum() == whole
    profile_analysis(analysis)


@pytest.mark.parametrize("name", [*FILES, "gecko"])
def test_a_damaged_file_is_a_profile_or_an_error_in_a_sentence(name: str, tmp_path: Path) -> None:
    data = json.dumps(GECKO).encode() if name == "gecko" else content(FOLDER / name)
    of = format_of(data[: 1 << 20])
    assert of is not None
    read = 0
    for number, copy in enumerate(damaged_copies(data, COPIES, 7)):
        folder = tmp_path / str(number)
        if survives(of, copy, folder) and number % 5 in (3, 4) and read < READ:
            read += 1
            read_all(folder / "made")


DEEP: dict[str, Callable[[], str]] = {
    "speedscope": lambda: '{"$schema":"https://www.speedscope.app/file-format-schema.json","x":' + "[" * 100_000,
    ".cpuprofile": lambda: '{"head":{"callFrame":{},"id":1,"children":' + '[{"id":2,"children":' * 50_000,
    "Firefox": lambda: '{"meta":{},"stackTable":' + '{"a":' * 100_000,
    "pyinstrument": lambda: '{"sample_count":1,"root_frame":' + '{"children":[' * 50_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_file_that_is_nested_too_deep_is_refused(name: str, tmp_path: Path) -> None:
    assert not survives(NAMES[name], DEEP[name]().encode(), tmp_path / "deep")


def test_a_node_that_calls_itself_is_refused(tmp_path: Path) -> None:
    nodes = [{"id": 1, "children": [2], "callFrame": {"functionName": "a"}}, {"id": 2, "children": [1], "callFrame": {"functionName": "b"}}]
    data = json.dumps({"nodes": nodes, "samples": [1], "timeDeltas": [1], "startTime": 0, "endTime": 2}).encode()
    assert not survives(NAMES[".cpuprofile"], data, tmp_path / "circle")
