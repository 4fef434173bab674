"""Hardware counters of devices as counters of a timeline."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from device_work import GPU, IDLE, MS, OTHER, every_counter, kernel, profile, stretches
from profiles import ran
from telemetries import told
from test_timeline_telemetry import counters

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.timeline import device_counters
from aiflame.attribute.timeline.whole import timeline
from aiflame.attribute.timeline.windows import Windows
from aiflame.profile.folder.meta import Clocks
from aiflame.render.perfetto import trace
from aiflame.render.report.timeline_counters import counters as drawn_counters

KERNELS = [kernel(1, 2 * MS, 4 * MS, "gemm")]
UNDER = f"Machine › {GPU}"


def test_counters_are_rates_below_their_device(tmp_path: Path) -> None:
    """At activity 0.5: 1500 bytes a ns, and half of the cycles of tensor cores and multiprocessors."""
    recorded = profile(tmp_path, **ran(*KERNELS), gpu_counters=every_counter(KERNELS, {"gemm": 0.5}, 6 * MS))
    assert counters(timeline(recorded)) == {
        f"{UNDER} › memory traffic": ("bytes/s", [(0, 0.0), (2 * MS, 1.5e12), (4 * MS, 0.0)]),
        f"{UNDER} › tensor cores": ("%", [(0, 0.0), (2 * MS, 50.0), (4 * MS, 0.0)]),
        f"{UNDER} › multiprocessors with work": ("%", [(0, 0.0), (2 * MS, 50.0), (4 * MS, 0.0)]),
    }


def test_a_gap_is_no_traffic(tmp_path: Path) -> None:
    rows = stretches([], {IDLE: 2.0}, 6 * MS)
    recorded = profile(tmp_path, gpu_counters=[row for row in rows if row["begin_ns"] != 3 * MS])
    points = [(0, 2e9), (3 * MS, 0.0), (4 * MS, 2e9), (6 * MS, 0.0)]
    assert counters(timeline(recorded)) == {f"{UNDER} › memory traffic": ("bytes/s", points)}


def test_they_stand_beside_the_telemetry_of_the_same_device(tmp_path: Path) -> None:
    """The driver numbers the machine's devices, the program those that it may see."""
    recorded = profile(
        tmp_path,
        gpu_counters=stretches([], {IDLE: 2.0}, 2 * MS),
        gpu_devices=[{"device": GPU, "address": "0000:1b:00.0"}],
        **told(("nvidia", OTHER, "power", "W", {0: 70.0}), identity="GPU-1 00000000:1B:00.0"),
    )
    assert list(counters(timeline(recorded))) == [f"Machine › {OTHER} › power", f"Machine › {OTHER} › memory traffic"]


def test_so_do_those_of_an_amd_gpu(tmp_path: Path) -> None:
    """HIP's first device is Linux's second card."""
    card = "AMD Instinct MI300X [1]"
    recorded = profile(
        tmp_path,
        gpu_counters=[{**row, "device": "AMD Instinct MI300X [0]"} for row in stretches([], {IDLE: 2.0}, 2 * MS)],
        gpu_devices=[{"device": "AMD Instinct MI300X [0]", "address": "0000:1B:00.0"}],
        **told(("amd", card, "power", "W", {0: 70.0}), identity="0000:1b:00.0"),
    )
    assert list(counters(timeline(recorded))) == [f"Machine › {card} › power", f"Machine › {card} › memory traffic"]


def test_a_counter_that_a_user_asked_for_has_its_name(tmp_path: Path) -> None:
    recorded = profile(tmp_path, gpu_counters=stretches([], {IDLE: 2.0}, 2 * MS, "lts__t_sectors.sum"))
    assert counters(timeline(recorded)) == {f"{UNDER} › lts__t_sectors.sum": ("counts/s", [(0, 2e9), (2 * MS, 0.0)])}


def test_very_many_points_become_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_counters, "MOST_POINTS", 4)
    recorded = profile(tmp_path, **ran(*KERNELS), gpu_counters=stretches(KERNELS, {"gemm": 3.0}, 7 * MS))
    ((_, points),) = counters(timeline(recorded)).values()
    assert points == [(0, 0.0), (2 * MS, 3e9), (4 * MS, 0.0)]


def test_the_report_and_the_trace_have_them(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **ran(*KERNELS), gpu_counters=every_counter(KERNELS, {"gemm": 0.5}, 6 * MS))
    head = drawn_counters(Windows(Analysis(recorded)).counters, 0, 6 * MS).head
    assert [(one["group"], one["label"], one["unit"], one["machine"]) for one in head] == [
        (GPU, "memory traffic", "bytes/s", True),
        (GPU, "tensor cores", "%", True),
        (GPU, "multiprocessors with work", "%", True),
    ]
    file = io.BytesIO()
    trace.write(timeline(recorded), Clocks(1, 2, 3), file)
    assert b"memory traffic" in file.getvalue()
    assert b"\x32\x07bytes/s" in file.getvalue()  # CounterDescriptor.unit_name


def test_damaged_stretches_draw_nothing_wrong(tmp_path: Path) -> None:
    rows = [
        {"device": GPU, "metric": "l2-bytes", "begin_ns": begin, "end_ns": end, "value": (1 << 64) - 1}
        for begin, end in ((5, 5), (9, 3), ((1 << 64) - 2, (1 << 64) - 1), (0, MS), (MS // 2, 2 * MS), (0, MS))
    ]
    drawn = counters(timeline(profile(tmp_path, gpu_counters=rows)))
    assert all(name.endswith("L2 traffic") for name in drawn)
    assert all(value >= 0 and time < 1 << 62 for _, points in drawn.values() for time, value in points)
