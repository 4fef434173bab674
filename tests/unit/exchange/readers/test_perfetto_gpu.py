"""Perfetto's traces from strangers: arrows from launches to work of GPUs, and counters of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from perfetto_packets import begin, end, fact, fixed, num, packet, sub, thread_track, track
from perfetto_read import own_time, read

from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.profile.tables.interface import Tables

CLEARED = num(13, 1)
HOST, STREAM, QUEUE = 1, 3, 4
TRACKS = (
    thread_track(HOST, 5, 6, "main"),
    track(2, "GPU 1"),
    track(STREAM, "Stream 7", 2),
    track(QUEUE, "GPU Kernel Dispatch [2] Queue 9"),
)


def links(profile: Tables) -> dict[str, str]:
    """For each kernel the call that launched it."""
    names = dict(profile.table("call_names").select("id", "name").rows())
    calls = {begin_ns: names[name] for begin_ns, name in profile.table("calls").select("begin_ns", "name").rows()}
    launches = {
        correlation: calls[begin_ns] for correlation, begin_ns in profile.table("launches").select("correlation", "begin_ns").rows()
    }
    shapes = dict(profile.table("kernel_shapes").select("id", "name").rows())
    return {
        shapes[shape]: launches.get(correlation, "")
        for shape, correlation in profile.table("kernels").select("shape", "correlation").rows()
    }


def one_launch(of_call: bytes, of_kernel: bytes, tmp_path: Path, call: str = "cudaLaunchKernel") -> tuple[Tables, Making]:
    data = [*TRACKS, begin(100, call, HOST, of_call), end(150, HOST), begin(200, "gemm", STREAM, of_kernel), end(400, STREAM)]
    return read(b"".join(data), tmp_path)


@pytest.mark.parametrize(
    ("of_call", "of_kernel"),
    [
        (fixed(47, 9), fixed(47, 9)),
        (num(36, 9), num(42, 9)),
        (sub(47, (9).to_bytes(8, "little") * 2), fixed(48, 9)),
        (sub(36, bytes([9, 9])), num(36, 9)),
        (sub(6, num(8, 77), num(13, 2)), sub(6, num(8, 77), num(13, 1))),
    ],
    ids=["fixed", "older numbers", "packed", "older packed", "bound"],
)
def test_an_arrow_leads_from_a_call_to_its_kernel(of_call: bytes, of_kernel: bytes, tmp_path: Path) -> None:
    profile, making = one_launch(of_call, of_kernel, tmp_path)
    assert links(profile) == {"gemm": "cudaLaunchKernel"}
    kernel = profile.table("kernels").row(0, named=True)
    assert (kernel["end_ns"] - kernel["start_ns"], kernel["stream"]) == (200, 7)
    assert profile.table("kernel_shapes")["device"].to_list() == ["GPU 1"]
    assert own_time(profile) == {"cudaLaunchKernel": 50}, "the kernel's time is not that of a thread"
    assert profile.table("processes")["pid"].to_list() == [5]
    assert "flows between slices" not in making.unused


def test_arrows_from_the_end_of_a_call_count_and_a_wait_launches_nothing(tmp_path: Path) -> None:
    data = [
        *TRACKS,
        begin(100, "hipModuleLaunchKernel", HOST),
        packet(sub(11, num(9, 2), num(11, HOST), fixed(47, 5)), at=150),
        begin(160, "hipStreamSynchronize", HOST, fixed(47, 5), fixed(47, 6)),
        end(190, HOST),
        begin(200, "first", STREAM, fixed(47, 5)),
        end(300, STREAM),
        begin(300, "second", STREAM, fixed(47, 6), category="kernel"),
        end(400, STREAM),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    assert links(profile) == {"first": "hipModuleLaunchKernel", "second": "hipStreamSynchronize"}, "a kernel by its category has an arrow"


def test_an_id_is_used_again_behind_the_event_that_ends_its_flow(tmp_path: Path) -> None:
    data = [
        *TRACKS,
        begin(100, "cuLaunchKernel", HOST, fixed(47, 5)),
        end(110, HOST),
        begin(120, "mine", STREAM, fixed(48, 5)),
        end(130, STREAM),
        begin(140, "not launched", STREAM, fixed(47, 5), category="kernel"),
        end(150, STREAM),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert links(profile) == {"mine": "cuLaunchKernel", "not launched": ""}
    assert any("1 of 2 kernels" in note for note in making.notes)


def test_rocm_systems_profiler_has_kernels_and_copies_on_queues_and_streams(tmp_path: Path) -> None:
    data = [
        *TRACKS,
        track(8, "HIP Stream [3]"),
        begin(100, "hipLaunchKernel", HOST, fixed(47, 11), category="rocm_hip_api"),
        end(150, HOST),
        begin(160, "hipMemcpyAsync", HOST, fixed(47, 12), category="rocm_hip_api"),
        end(170, HOST),
        begin(200, "gemm", QUEUE, fixed(47, 11), fact("grid_size", "(8,2,1)"), category="rocm_kernel_dispatch"),
        end(400, QUEUE),
        begin(500, "MEMORY_COPY_HOST_TO_DEVICE", 8, fixed(47, 12), category="rocm_hip_stream"),
        end(510, 8),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert links(profile) == {"gemm": "hipLaunchKernel"}
    assert profile.table("kernel_shapes").select("device", "grid_x", "grid_y").rows() == [("GPU 2", 8, 2)]
    assert profile.table("copies").select("kind", "device").rows() == [(1, "GPU")]
    launched = set(profile.table("launches")["correlation"].to_list())
    assert launched == {*profile.table("kernels")["correlation"], *profile.table("copies")["correlation"]}
    assert "flows between slices" not in making.unused


def test_arrows_between_threads_are_counted(tmp_path: Path) -> None:
    data = [
        *TRACKS,
        thread_track(9, 5, 7),
        begin(100, "send", HOST, fixed(47, 1)),
        end(110, HOST),
        begin(120, "receive", 9, fixed(47, 1)),
        end(130, 9),
        begin(140, "request", STREAM, fixed(47, 1)),
        end(150, STREAM),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"send": 10, "receive": 10, "request": 10}, "an arrow from other calls makes no kernel"
    assert making.unused["flows between slices"] == 1


def described(number: int, name: str, *more: bytes) -> bytes:
    return sub(1, num(1, number), sub(2, name), *more)


def value(number: int, amount: int | float) -> bytes:
    return sub(2, num(1, number), num(2, amount) if isinstance(amount, int) else fixed(3, amount))


def measured(profile: Tables) -> dict[tuple[str, str, str], list[tuple[int, float]]]:
    series = {row[0]: row[1:] for row in profile.table("telemetry_series").select("series", "device", "name", "unit").rows()}
    rows: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for of, time, amount in profile.table("telemetry").select("series", "time_ns", "value").rows():
        rows.setdefault(series[of], []).append((time - FIRST_NS, amount))
    return rows


def test_counters_of_gpus_are_measurements_with_their_units_and_times(tmp_path: Path) -> None:
    descriptor = sub(
        1,
        described(1, "busy", num(7, 37)),
        described(2, "read", num(7, 7), num(8, 22), num(11, 2)),
        described(3, "rate", num(7, 27), num(8, 21), num(8, 21)),
        sub(6, num(1, 100), sub(2, "L2 Cache"), num(4, 3)),
    )
    data = [
        *TRACKS,
        begin(1000, "work", HOST),
        end(5000, HOST),
        packet(sub(52, descriptor), at=1000),
        packet(sub(52, value(1, 7), value(2, 100), value(3, 1.5)), at=2000),
        packet(sub(52, value(1, 9), value(2, 0), value(3, 2.5), value(4, 1)), at=3000),
        packet(sub(52, value(1, 11)), at=4000),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert measured(profile) == {
        ("GPU 0", "busy", "%"): [(1000, 9), (2000, 11)],
        ("GPU 0", "read", "bytes/s"): [(1000, 100), (2000, 0)],
        ("GPU 0", "L2 Cache / rate", "triangles/ms·ms"): [(1000, 2.5)],
    }
    assert making.unused["values of GPU counters without a descriptor"] == 1
    assert making.unused["first values of GPU counters, of a time whose begin is not in the trace"] == 2
    assert "counters of devices" not in making.lacks
    assert own_time(profile) == {"work": 4000}


def test_a_descriptor_that_is_interned_is_that_of_its_sequence_and_gpus_may_have_their_own(tmp_path: Path) -> None:
    forwards = num(11, 2)

    def interned(gpu: int, name: str) -> bytes:
        return sub(12, sub(47, num(1, 5), sub(2, described(1, name, forwards)), num(3, gpu)))

    data = [
        packet(interned(0, "a"), CLEARED, sub(52, num(4, 5), value(1, 1)), at=1000, sequence=1),
        packet(interned(1, "b"), CLEARED, sub(52, num(4, 5), value(1, 2)), at=1000, sequence=2),
        packet(sub(52, num(4, 5), value(1, 3)), at=1100, sequence=1),
        packet(sub(52, sub(1, described(7, "of 2", forwards)), num(3, 2)), at=1000, sequence=3),
        packet(sub(52, sub(1, described(7, "of 3", forwards)), num(3, 3)), at=1000, sequence=3),
        packet(sub(52, num(3, 2), value(7, 4)), at=1200, sequence=3),
        packet(sub(52, num(3, 3), value(7, 5)), at=1200, sequence=3),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert measured(profile) == {
        ("GPU 0", "a", ""): [(0, 1), (100, 3)],
        ("GPU 1", "b", ""): [(0, 2)],
        ("GPU 2", "of 2", ""): [(200, 4)],
        ("GPU 3", "of 3", ""): [(200, 5)],
    }
    assert not any("empty" in note for note in making.notes)


def test_a_gpu_without_a_descriptor_of_its_own_has_values_of_its_own(tmp_path: Path) -> None:
    data = [
        *TRACKS,
        packet(sub(52, sub(1, described(7, "busy", num(11, 2)), sub(6, num(1, 100), sub(2, "long " * 1000), num(4, 7)))), at=1000),
        packet(sub(52, num(3, 0), value(7, 4)), at=1200),
        packet(sub(52, num(3, 1), value(7, 5)), at=1200),
    ]
    series = measured(read(b"".join(data), tmp_path)[0])
    assert {device: [amount for _, amount in values] for (device, _, _), values in series.items()} == {"GPU 0": [4], "GPU 1": [5]}
    assert max(len(name) for _, name, _ in series) < 250
