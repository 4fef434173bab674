"""The machine's telemetry as counters of a timeline."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from profiles import sealed
from small_program import SYMBOLS
from telemetries import MS, told

from aiflame.attribute.timeline.tables import Timeline, TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.folder.meta import Clocks
from aiflame.profile.tables.store import Profile
from aiflame.render.perfetto import trace

GPU = "NVIDIA H200 [0]"


def made(path: Path, *series: tuple[str, str, str, str, dict[int, float]]) -> Profile:
    processes = [{"pid": 7, "exe": "/bin/train", "start_ns": 1}, {"process": 1, "id": 1, "pid": 8, "exe": "/bin/worker", "start_ns": 1}]
    return sealed(path / "p.aiflame", processes=processes, symbols=SYMBOLS, **told(*series))


def counters(of: Timeline) -> dict[str, tuple[str, list[tuple[int, float]]]]:
    """`Machine › group › counter` → its unit and points."""
    names, parents = of.tracks["name"].to_list(), of.tracks["parent"].to_list()
    by_track = {}
    for track, unit in of.tracks.filter(kind=int(TrackKind.COUNTER)).select("track", "unit").rows():
        path, at = [], track
        while at >= 0:
            path.append(names[at])
            at = parents[at]
        by_track[" › ".join(reversed(path))] = (unit, of.points.filter(track=track).select("time_ns", "value").rows())
    return by_track


def test_counters_stand_below_their_devices(tmp_path: Path) -> None:
    recorded = made(
        tmp_path,
        ("cpu", "", "user", "%", {0: 10.0, 50 * MS: 20.0}),
        ("cpu", "core 3", "user", "%", {0: 90.0}),
        ("disk", "sda", "read", "bytes/s", {0: 5.0}),
        ("nvidia", GPU, "power", "W", {0: 70.0}),
    )
    assert counters(timeline(recorded)) == {
        f"Machine › {GPU} › power": ("W", [(0, 70.0)]),
        "Machine › CPU › user": ("%", [(0, 10.0), (50 * MS, 20.0)]),
        "Machine › CPU cores › core 3 user": ("%", [(0, 90.0)]),
        "Machine › Disk sda › read": ("bytes/s", [(0, 5.0)]),
    }


def test_memory_of_a_process_stands_below_it(tmp_path: Path) -> None:
    recorded = made(tmp_path, *(("process", f"pid {pid}", "resident memory", "bytes", {0: 100.0 * pid}) for pid in (8, 9)))
    assert counters(timeline(recorded)) == {"worker › resident memory": ("bytes", [(0, 800.0)])}


def test_counters_of_several_hosts_stand_apart(tmp_path: Path) -> None:
    """Their names stand before those of devices; two of their processes may have one number."""
    recorded = made(
        tmp_path,
        *(("cpu", f"node{host}: ", "user", "%", {0: 10.0 * host}) for host in (1, 2)),
        ("cpu", "node1: core 3", "user", "%", {0: 90.0}),
        ("nvidia", f"node1: {GPU}", "power", "W", {0: 70.0}),
        ("process", "node1: pid 8", "resident memory", "bytes", {0: 800.0}),
    )
    assert counters(timeline(recorded)) == {
        f"Machine › node1: {GPU} › power": ("W", [(0, 70.0)]),
        "Machine › node1: CPU › user": ("%", [(0, 10.0)]),
        "Machine › node2: CPU › user": ("%", [(0, 20.0)]),
        "Machine › node1: CPU cores › core 3 user": ("%", [(0, 90.0)]),
        "worker › resident memory": ("bytes", [(0, 800.0)]),
    }
    twice = sealed(
        tmp_path / "twice.aiflame",
        processes=[{"pid": 8, "exe": "/bin/train", "start_ns": 1}, {"process": 1, "id": 1, "pid": 8, "exe": "/bin/train", "start_ns": 1}],
        symbols=SYMBOLS,
        **told(*(("process", f"node{host}: pid 8", "resident memory", "bytes", {0: 100.0 * host}) for host in (1, 2))),
    )
    assert counters(timeline(twice)) == {
        f"Machine › node{host}: pid 8 › resident memory": ("bytes", [(0, 100.0 * host)]) for host in (1, 2)
    }


def test_energy_is_shown_as_power_where_no_power_is_recorded(tmp_path: Path) -> None:
    """2 J in 50 ms, then 5."""
    package = ("rapl", "package-0", "energy", "J", {0: 100.0, 50 * MS: 102.0, 100 * MS: 107.0})
    both = (("nvidia", GPU, "energy", "J", {0: 1.0, 50 * MS: 2.0}), ("nvidia", GPU, "power", "W", {0: 30.0}))
    by_track = counters(timeline(made(tmp_path, package, *both)))
    assert by_track == {
        "Machine › CPU › package-0 power": ("W", [(0, pytest.approx(40.0)), (50 * MS, pytest.approx(100.0))]),
        f"Machine › {GPU} › power": ("W", [(0, 30.0)]),
    }


def test_a_value_that_stays_is_one_point_and_one_that_is_always_0_none(tmp_path: Path) -> None:
    steady = ("memory", "", "used", "bytes", {0: 7.0, 50 * MS: 7.0, 100 * MS: 9.0, 150 * MS: 9.0})
    by_track = counters(timeline(made(tmp_path, steady, ("network", "ifb0", "sent", "bytes/s", {0: 0.0, 50 * MS: 0.0}))))
    assert by_track == {"Machine › Memory › used": ("bytes", [(0, 7.0), (100 * MS, 9.0)])}


def test_damaged_values_and_unknown_sources_do_no_harm(tmp_path: Path) -> None:
    recorded = made(
        tmp_path,
        ("later", "thing", "amount", "furlongs", {0: 3.0, 1: float("nan"), 2: float("inf"), (1 << 63) - 1: 5.0}),
        ("process", "pid x", "resident memory", "bytes", {0: 1.0}),
    )
    assert counters(timeline(recorded)) == {"Machine › thing › amount": ("furlongs", [(0, 3.0)])}


def test_a_profile_without_telemetry_has_no_machine(tmp_path: Path) -> None:
    tracks = timeline(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS)).tracks
    assert tracks.filter(pl.col("kind") == int(TrackKind.MACHINE)).is_empty()


def test_a_trace_has_the_machine_as_a_track_of_no_process(tmp_path: Path) -> None:
    file = io.BytesIO()
    trace.write(timeline(made(tmp_path, ("nvidia", GPU, "power", "W", {0: 70.0}))), Clocks(1, 2, 3), file)
    data = file.getvalue()
    assert b"Machine" in data
    assert GPU.encode() in data
    assert b"\x32\x01W" in data  # CounterDescriptor.unit_name
