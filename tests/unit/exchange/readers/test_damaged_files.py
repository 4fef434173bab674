"""Damaged files of every format: each is a profile that every view can read, or an error in one sentence. `make fuzz` does more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from damage import damaged
from whole_traces import ARCHIVE, FOLDER, Whole, look_at, whole_traces

from aiflame.exchange.readers.formats import FORMATS

COPIES, LOOKED_AT = 64, 4
NAMES = [*(one.name for one in FORMATS), FOLDER, ARCHIVE]
LATER = {
    "torch.profiler or Chrome JSON": (80, 93, 133),
    "JSON lines of nsys": (182,),
    "nsys Arrow": (67, 72, 164, 168),
    "torch memory snapshot": (74, 147),
    "torch memory timeline": (74,),
    "speedscope": (93, 189),
    ".cpuprofile": (85, 146),
    "Firefox": (133, 157, 189),
    "rocprofv3 JSON": (141, 157, 162),
    "rocprofv3 CSV": (90, 94, 123, 166, 192),
    "SQLite of nsys, rocprofv3 or RPD": (74, 130),
    "Proton": (70, 71, 133),
    "XPlane of JAX, XLA or TensorFlow": (78, 102, 103, 117, 139),
    "Perfetto": (77, 84, 88, 92, 93, 112, 126, 133),
    "pprof": (180, 183),
    "perf.data": (127, 162),
    "collapsed stacks": (153,),
    FOLDER: (114, 135, 198),
    ARCHIVE: (135, 175),
}
"""Of the copies up to 200, those behind the first COPIES that ran lines of the readers which no copy before them had run, when this was
last measured. The others repeat."""


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Whole]]:
    return whole_traces(tmp_path_factory.mktemp("wholes"))


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_a_profile_or_an_error_in_a_sentence(name: str, wholes: dict[str, list[Whole]], tmp_path: Path) -> None:
    assert wholes.get(name), f"{name} has no whole file: add one to tests/data/traces, or to whole_traces.py"
    looked_at, most_looked_at = 0, max(LOOKED_AT, len(wholes[name]))
    for number in (*range(COPIES), *LATER.get(name, ())):
        whole = wholes[name][number % len(wholes[name])]
        profile = whole.survives(damaged(whole.data, number), tmp_path / str(number))
        if profile is not None and number % 5 == 3 and looked_at < most_looked_at and name != ARCHIVE:
            looked_at += 1
            look_at(profile)


FAILED = [
    ("nsys Arrow", "nsys.arrow", 20543),
    ("nsys Parquet or Arrow", "CUPTI_ACTIVITY_KIND_KERNEL.parquet", 21109),
    ("perf script", "three_events.txt", 22055),
    ("perf.data", "perf.pipe.data", 389),
    ("Perfetto", "timeline.pftrace", 1150),
    ("rocprofv3 CSV", "4711_hip_api_trace.csv", 3556),
    ("torch memory timeline", "memory_timeline.json", 1405),
]
"""Copies that ended in a traceback once, or ended the process."""


@pytest.mark.parametrize(("name", "file", "number"), FAILED)
def test_a_copy_that_ended_in_a_traceback(name: str, file: str, number: int, wholes: dict[str, list[Whole]], tmp_path: Path) -> None:
    (whole,) = (one for one in wholes[name] if one.name == file)
    profile = whole.survives(damaged(whole.data, number), tmp_path / "copy")
    if profile is not None:
        look_at(profile)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_whole_is_read(name: str, wholes: dict[str, list[Whole]], tmp_path: Path) -> None:
    for at, whole in enumerate(wholes[name]):
        assert whole.survives(whole.data, tmp_path / str(at)) is not None, whole


DEEP: dict[str, Callable[[], str]] = {
    "speedscope": lambda: '{"$schema":"https://www.speedscope.app/file-format-schema.json","x":' + "[" * 100_000,
    ".cpuprofile": lambda: '{"head":{"callFrame":{},"id":1,"children":' + '[{"id":2,"children":' * 50_000,
    "Firefox": lambda: '{"meta":{},"stackTable":' + '{"a":' * 100_000,
    "pyinstrument": lambda: '{"sample_count":1,"root_frame":' + '{"children":[' * 50_000,
    "Proton": lambda: '[{"frame":{"name":"a","type":"function"},"metrics":{},"children":' + "[" * 100_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_file_that_is_nested_too_deep_is_refused(name: str, tmp_path: Path) -> None:
    assert Whole(name, "deep", b"").survives(DEEP[name]().encode(), tmp_path / "deep") is None


def test_a_node_that_calls_itself_is_refused(tmp_path: Path) -> None:
    nodes = [{"id": 1, "children": [2], "callFrame": {"functionName": "a"}}, {"id": 2, "children": [1], "callFrame": {"functionName": "b"}}]
    data = json.dumps({"nodes": nodes, "samples": [1], "timeDeltas": [1], "startTime": 0, "endTime": 2}).encode()
    assert Whole(".cpuprofile", "circle", b"").survives(data, tmp_path / "circle") is None
