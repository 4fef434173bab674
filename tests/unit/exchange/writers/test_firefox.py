"""The Firefox Profiler's processed format: tables that refer to each other, samples and markers."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from exported_profiles import STEPS, listed, training

from aiflame.profile.tables.store import Profile

Json = dict[str, Any]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("firefox"))


@pytest.fixture(scope="module")
def written(profile: Profile) -> Json:
    file = Path(profile.path.with_name("run.json"))
    assert run_aiflame("export", str(profile.path), "--to", "firefox", "-o", str(file)).status == 0
    whole: Json = json.loads(file.read_text(), parse_float=Decimal)
    return whole


def columns(table: Json) -> dict[str, list[Any]]:
    return {name: column for name, column in table.items() if isinstance(column, list)}


def stack(whole: Json, row: int | None) -> list[str]:
    """The functions, the innermost first."""
    shared = whole["shared"]
    names = []
    while row is not None:
        function = shared["frameTable"]["func"][shared["stackTable"]["frame"][row]]
        names.append(shared["stringArray"][shared["funcTable"]["name"][function]])
        offset = shared["stackTable"]["prefixOffset"][row]
        row = row - offset if offset else None
    return names


def thread(whole: Json, name: str) -> Json:
    (thread_of_name,) = (one for one in whole["threads"] if one["name"] == name)
    return thread_of_name  # type: ignore[no-any-return]


def test_tables_are_as_long_as_they_say_and_refer_to_rows_that_are_there(written: Json) -> None:
    shared = written["shared"]
    tables = [shared[name] for name in shared if name != "stringArray"]
    tables += [one[name] for one in written["threads"] for name in ("samples", "markers")]
    for table in tables:
        assert all(len(column) == table["length"] for column in columns(table).values()), table.keys()
    strings, functions = len(shared["stringArray"]), shared["funcTable"]
    assert set(functions["name"]) | set(shared["resourceTable"]["name"]) | set(shared["sources"]["filename"]) <= set(range(strings))
    assert set(shared["stackTable"]["frame"]) <= set(range(shared["frameTable"]["length"]))
    assert all(0 <= offset <= row for row, offset in enumerate(shared["stackTable"]["prefixOffset"]))
    assert set(functions["source"]) - {None} <= set(range(shared["sources"]["length"]))
    assert set(functions["resource"]) - {-1} <= set(range(len(written["libs"])))
    categories = len(written["meta"]["categories"])
    assert set(shared["frameTable"]["category"]) <= set(range(categories))
    schemas = {one["name"] for one in written["meta"]["markerSchema"]}
    for one in written["threads"]:
        assert {data["type"] for data in one["markers"]["data"]} <= schemas
        assert set(one["markers"]["name"]) <= set(range(strings))
        assert one["samples"]["time"] == sorted(one["samples"]["time"])
    assert (written["meta"]["version"], written["meta"]["preprocessedProfileVersion"]) == (24, 66)


def test_samples_have_the_time_of_functions(profile: Profile, written: Json) -> None:
    samples = thread(written, "main thread")["samples"]
    own: Counter[str] = Counter()
    for row, weight in zip(samples["stack"], samples["weight"], strict=True):
        own[stack(written, row)[0]] += int(weight * 1_000_000)
    assert own == {name: values[0] for name, values in listed(profile, "wall-time", "function").items() if values[0]}
    assert sum(samples["threadCPUDelta"]) == sum(own.values())


def test_a_stream_is_a_thread_with_the_time_of_its_kernels_below_their_callers(profile: Profile, written: Json) -> None:
    samples = thread(written, "NVIDIA H200 stream 7")["samples"]
    other = thread(written, "NVIDIA H200 stream 0")["samples"]
    own: Counter[str] = Counter()
    for part in (samples, other):
        for row, weight in zip(part["stack"], part["weight"], strict=True):
            names = stack(written, row)
            own[names[0]] += int(weight * 1_000_000)
            assert names[-1] == "train"
    assert own == {name: values[0] for name, values in listed(profile, "gpu-time", "kernel").items() if name != "[GPU idle]"}


def test_markers_say_what_went_on(written: Json) -> None:
    markers = [thread(written, name)["markers"] for name in ("main thread", "NVIDIA H200 stream 0")]
    counts = [Counter(data["type"] for data in one["data"]) for one in markers]
    assert (counts[0]["Step"], counts[0]["Region"], counts[0]["Call"]) == (STEPS, STEPS, 4 * STEPS)
    assert counts[1]["Kernel"] == 3 * STEPS
    kernels = [data for data in markers[1]["data"] if data["type"] == "Kernel"]
    assert Counter(data.get("layer", "") for data in kernels)["layers.0.attn"] == STEPS
