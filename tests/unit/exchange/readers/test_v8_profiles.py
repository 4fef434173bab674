"""CPU profiles of V8 within traces in Chrome's JSON."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from damage import content
from v8_chunks import CHUNKS, Event, event, node

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.tables.interface import Tables

TRACES = Path(os.environ.get("AIFLAME_TRACES", "/nonexistent"))
REAL = [
    file
    for file in sorted([*TRACES.glob("chrome-trace/fxprof-*"), *TRACES.glob("cpuprofile/speedscope-Chrome-*.json")])
    if b"CpuProfile" in content(file) or b"ProfileChunk" in content(file)
]


OWN = {"work": (100 + 30) * 1000, "inner": (100 + 50) * 1000, "(idle)": 110 * 1000}


def own_time(profile: Tables, metric: str) -> dict[str, int]:
    times: Counter[str] = Counter()
    for row in top(tree(profile, metric, "code"), "function", metric).to_dicts():
        times[row["name"]] += row["self"]
    return {name: time for name, time in times.items() if time}


def opened(file: Path, events: list[Event]) -> Tables:
    file.write_text(json.dumps({"traceEvents": events}))
    return aiflame.open(file).store


def test_chunks_of_a_profile_are_samples_of_the_thread_that_it_is_of(tmp_path: Path) -> None:
    profile = opened(tmp_path / "trace.json", CHUNKS)
    assert own_time(profile, "cpu-time") == OWN
    assert own_time(profile, "wall-time") == {"RunTask": 500_000}
    samples = profile.table("cpu_samples").filter(clock=0)
    threads = profile.table("threads").select("process", "id", "tid", "name")
    placed = samples.join(threads, left_on=["process", "thread"], right_on=["process", "id"])
    assert placed.select("tid", "name").unique().rows() == [(8, "main")]
    # Both clocks are one: the task begins at 1000 µs, the first sample at 1010.
    first, period = samples.sort("time_ns").select("time_ns", "period_ns").row(0)
    ((task_end,),) = profile.table("cpu_samples").filter(clock=1).select("time_ns").rows()
    assert first - period - 10_000 == task_end - 500_000


def test_an_older_event_holds_a_whole_profile(tmp_path: Path) -> None:
    whole = {
        "nodes": [node(1, "(root)") | {"children": [2]}, node(2, "work")],
        "samples": [2, 2],
        "timeDeltas": [5, 20],
        "startTime": 100,
        "endTime": 145,
    }
    profile = opened(tmp_path / "trace.json", [event("CpuProfile", 8, 150, {"cpuProfile": whole}, phase="I")])
    assert own_time(profile, "cpu-time") == {"work": 40_000}


def test_two_profiles_with_the_same_id_in_two_processes_are_two(tmp_path: Path) -> None:
    other = [{**one, "pid": 11} for one in CHUNKS]
    profile = opened(tmp_path / "trace.json", [*CHUNKS, *other])
    assert own_time(profile, "cpu-time") == {name: 2 * time for name, time in OWN.items()}


@pytest.mark.parametrize(
    "data",
    [
        {"cpuProfile": {"nodes": [node(1, "a", 2), node(2, "b", 1)], "samples": [1]}, "timeDeltas": [1]},
        {"cpuProfile": {"nodes": [node(1, "a", 99)], "samples": [1, 55, None, "x"]}, "timeDeltas": [1, 2, 3, 4]},
        {"cpuProfile": {"nodes": 7, "samples": [1]}, "timeDeltas": [10**30]},
        {"cpuProfile": [], "timeDeltas": "x"},
    ],
)
def test_absurd_profiles_are_told(data: Event, tmp_path: Path) -> None:
    try:
        profile = opened(
            tmp_path / "trace.json", [CHUNKS[0], event("Profile", 8, 1001, {"startTime": -5}), event("ProfileChunk", 9, 1, data)]
        )
    except aiflame.AiflameError as error:
        assert "\n" not in str(error)
    else:
        assert own_time(profile, "wall-time") == {"RunTask": 500_000}


def reckoned(events: list[Event]) -> dict[str, int]:
    """The time of each function in microseconds: of every sample until the next one."""
    profiles: dict[tuple[object, object], list[tuple[list[Event], list[int], list[int], int, int]]] = defaultdict(list)
    for one in events:
        data = one.get("args", {}).get("data") or {}
        if one.get("name") == "CpuProfile":
            whole = data["cpuProfile"]
            profiles[len(profiles), None].append(
                (whole["nodes"], whole["samples"], whole["timeDeltas"], whole["startTime"], whole["endTime"])
            )
        elif one.get("name") in ("Profile", "ProfileChunk"):
            of = data.get("cpuProfile", {})
            deltas = data.get("timeDeltas", [])
            start = data.get("startTime", 0)
            profiles[one["pid"], one["id"]].append((of.get("nodes", []), of.get("samples", []), deltas, start, data.get("endTime", 0)))
    times: Counter[str] = Counter()
    for parts in profiles.values():
        names = {each["id"]: each["callFrame"]["functionName"] or "(anonymous)" for part in parts for each in part[0]}
        samples = [each for part in parts for each in part[1]]
        now, moments = max(part[3] for part in parts), []
        for delta in (each for part in parts for each in part[2]):
            now += delta
            moments.append(now)
        order = sorted(range(len(moments)), key=lambda at: moments[at])
        moments = [*sorted(moments), max(max(part[4] for part in parts), now)]
        for place, at in enumerate(order):
            times[names.get(samples[at], "")] += moments[place + 1] - moments[place]
    return {name: time * 1000 for name, time in times.items() if time and name not in ("", "(root)")}


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_real_traces_have_the_times_that_a_reckoning_finds(file: Path) -> None:
    data = content(file)
    events = json.loads(data)
    profile = aiflame.open(file).store
    assert "cpu-time" in metrics(profile)
    times = own_time(profile, "cpu-time")
    times.pop("[unattributed: no stack]", None)  # samples of nodes that are in no chunk
    assert times == reckoned(events["traceEvents"] if isinstance(events, dict) else events)
