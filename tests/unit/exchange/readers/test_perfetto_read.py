"""Perfetto's traces whose answer is known: of threads, clocks, GPUs, samples, counters, and of several programs."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from perfetto_packets import begin, end, fact, fixed, num, packet, sub, thread_track, track
from perfetto_read import own_time, read

import aiflame
from aiflame.exchange.readers.making import FIRST_NS

CLEARED = num(13, 1)


def test_slices_of_threads_nest_and_lanes_stand_for_themselves(tmp_path: Path) -> None:
    data = [
        packet(sub(60, num(1, 1), sub(3, num(1, 42), sub(6, "app")))),
        thread_track(2, 42, 43, "worker"),
        track(3, "requests", 1),
        begin(1000, "outer", 2),
        begin(1200, "inner", 2, category="net,more"),
        begin(1300, "request", 3),
        end(1700, 2),
        end(2000, 2),
        end(2500, 3),
        end(2600, 3),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"outer": 500, "inner": 500, "request": 1200}
    threads = profile.table("threads")
    assert set(threads.select("tid", "name").rows()) == {(43, "worker"), (0, "requests")}
    assert profile.table("processes").select("pid", "command").rows() == [(42, "app")]
    assert any("1 slices of the trace have no begin" in note for note in making.notes)


def test_interned_texts_are_those_of_the_sequence_until_its_state_is_cleared(tmp_path: Path) -> None:
    def named(text: str) -> bytes:
        return sub(12, sub(2, num(1, 7), sub(2, text)))

    def called(at: int, sequence: int, *more: bytes) -> bytes:
        first = packet(sub(11, num(9, 1), num(10, 7)), *more, at=at, sequence=sequence)
        return first + packet(sub(11, num(9, 2)), at=at + 10 * sequence, sequence=sequence)

    def defaults(uuid: int) -> bytes:
        return sub(59, sub(11, num(11, uuid)))

    data = [
        thread_track(1, 5, 6),
        thread_track(2, 5, 7),
        called(100, 1, named("first"), defaults(1), CLEARED),
        called(100, 2, named("second"), defaults(2), CLEARED),
        called(200, 1),
        called(300, 1, named("third"), defaults(1), CLEARED),
        called(400, 2),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"first": 20, "second": 40, "third": 10}


def test_clocks_of_sequences_count_on_and_are_those_of_the_trace_in_the_end(tmp_path: Path) -> None:
    def clock(number: int, moment: int, *more: bytes) -> bytes:
        return sub(1, num(1, number), num(2, moment), *more)

    realtime = 1_700_000_000_000_000_000
    snapshot = sub(6, clock(6, 5_000_000), clock(1, realtime), clock(64, 70, num(3, 1), num(4, 1000)))
    data = [
        thread_track(1, 5, 6),
        packet(snapshot, CLEARED, sub(59, num(58, 64), sub(11, num(11, 1)))),
        packet(sub(11, num(9, 1), sub(23, "a")), at=30),  # 30 µs after the snapshot
        packet(sub(11, num(9, 2)), at=50),
        packet(sub(11, num(9, 1), sub(23, "b")), num(58, 6), at=6_000_000),
        packet(sub(11, num(9, 2)), num(58, 6), at=6_000_007),
        packet(sub(11, num(9, 1), sub(23, "c")), at=20),
        packet(sub(11, num(9, 2)), at=5),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"a": 50_000, "b": 7, "c": 5_000}
    assert making.realtime_ns == realtime + 30_000, "the first event is 30 µs after the snapshot"
    assert profile.table("cpu_samples")["time_ns"].sort().to_list() == [FIRST_NS + end for end in (50_000, 75_000, 970_007)]


def test_older_events_begin_end_last_and_overlap(tmp_path: Path) -> None:
    def legacy(at: int, phase: str, name: str, *more: bytes) -> bytes:
        return packet(sub(11, num(11, 1), sub(23, name), sub(6, num(2, ord(phase)), *more)), at=at)

    data = [
        thread_track(1, 5, 6),
        legacy(1000, "B", "call"),
        legacy(1500, "X", "complete", num(3, 2)),
        legacy(9000, "E", "call"),
        legacy(2000, "b", "async", num(6, 77)),
        legacy(2500, "b", "async", num(6, 78)),
        legacy(4000, "e", "async", num(6, 77)),
        legacy(4700, "e", "async", num(6, 78)),
        legacy(100, "I", "moment"),
        legacy(100, "s", "arrow"),
    ]
    profile, making = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"call": 6000, "complete": 2000}
    regions = profile.table("regions").join(profile.table("region_ends"), left_on=["process", "id"], right_on=["process", "region"])
    assert sorted(regions.select("name", "kind", took=pl.col("end_ns") - pl.col("begin_ns")).rows()) == [
        ("async", 2, 2000),
        ("async", 2, 2200),
        ("moment", 3, 0),
    ]
    assert making.unused["events of phase 's'"] == 1


def test_rocprofv3_has_kernels_below_the_calls_with_their_correlation_ids(tmp_path: Path) -> None:
    data = [
        thread_track(1, 5, 6),
        track(2, "COMPUTE AGENT [0] QUEUE [1] (GPU)"),
        track(3, "COPY to AGENT [0] THREAD [0] (GPU)"),
        begin(100, "hipLaunchKernel", 1, fact("corr_id", 9), category="hip_api"),
        end(150, 1),
        begin(160, "hipMemcpyAsync", 1, fact("corr_id", 10), category="hip_api"),
        end(170, 1),
        begin(200, "gemm", 2, fact("corr_id", 9), fact("grid_size", "8,2,1"), fact("agent", "gfx942"), category="kernel_dispatch"),
        end(400, 2),
        begin(500, "MEMORY_COPY_HOST_TO_DEVICE", 3, fact("corr_id", 10), fact("copy_bytes", 4096), category="memory_copy"),
        end(510, 3),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    kernels, copies = profile.table("kernels"), profile.table("copies")
    assert (kernels["end_ns"] - kernels["start_ns"]).to_list() == [200]
    assert profile.table("kernel_shapes").select("name", "device", "grid_x", "grid_y").rows() == [("gemm", "gfx942", 8, 2)]
    assert copies.select("bytes", "kind").rows() == [(4096, 1)]
    launches = profile.table("launches").sort("begin_ns")
    assert launches["correlation"].to_list() == [kernels["correlation"][0], copies["correlation"][0]]
    assert profile.table("call_names")["name"].to_list() == ["hipLaunchKernel", "hipMemcpyAsync"]


def test_iprof_has_processes_threads_and_devices_by_the_names_of_its_tracks(tmp_path: Path) -> None:
    data = [
        track(1, "Hostname x1"),
        track(2, "Process 77", 1),
        track(3, "Thread 78", 2),
        track(4, "Device 3", 3),
        track(5, "SubDevice 1", 4),
        begin(100, "zeCommandListAppendLaunchKernel", 3),
        end(150, 3),
        begin(200, "gemm", 5),
        end(260, 5),
        begin(300, "zeCommandListAppendMemoryCopy(M2D)", 5),
        end(310, 5),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"zeCommandListAppendLaunchKernel": 50}
    assert profile.table("processes")["pid"].to_list() == [77]
    assert profile.table("kernel_shapes").select("name", "device").rows() == [("gemm", "device 3")]
    assert profile.table("copies").select("kind", "device").rows() == [(1, "device 3")]


def test_render_stages_are_kernels_of_the_calls_that_submitted_them(tmp_path: Path) -> None:
    interned = sub(
        12,
        sub(23, num(1, 1), num(2, 42), num(3, 4)),
        sub(1000, num(1, 5), sub(2, "_Z3addv"), sub(3, "add()"), sub(5, sub(2, "registers_per_thread"), num(4, 32))),
    )
    launch = sub(21, sub(1, num(1, 256), num(2, 2), num(3, 1)), sub(2, num(1, 128)), sub(3, sub(2, "shared_mem_dynamic"), num(4, 4096)))
    data = [
        thread_track(9, 42, 43, sequence=2),
        packet(interned, CLEARED, at=0),
        begin(50, "cuLaunchKernel", 9, sub(3000, num(1, 8)), sequence=2),
        end(60, 9, sequence=2),
        packet(sub(53, num(1, 8), num(2, 500), num(13, 3), num(5, 1), num(19, 5), launch), at=100),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    shape = profile.table("kernel_shapes").select("name", "registers", "dynamic_shared", "grid_x", "grid_y", "block_x")
    assert shape.rows() == [("add()", 32, 4096, 256, 2, 128)]
    kernel = profile.table("kernels").row(0, named=True)
    assert (kernel["end_ns"] - kernel["start_ns"], kernel["stream"]) == (500, 3)
    assert profile.table("launches")["correlation"].to_list() == [kernel["correlation"]]
    assert profile.table("processes")["pid"].to_list() == [42]


def test_samples_have_the_stacks_and_weights_that_the_trace_gives(tmp_path: Path) -> None:
    def stack(*names: str) -> bytes:
        return sub(5, *(sub(1, sub(1, name), sub(2, f"/src/{name}.py")) for name in names))

    wall = sub(9, sub(2, "wall-time"), num(3, 1))
    data = [
        packet(sub(135, sub(1, num(2, 7), num(3, 8)), stack("main", "work"), wall, num(11, 2_000)), at=10_000),
        packet(sub(135, sub(1, num(2, 7), num(3, 8)), stack("main"), wall, num(11, 500)), at=12_000),
        packet(sub(135, sub(1, num(2, 7), num(3, 8)), stack("main"), sub(9, sub(2, "misses"), num(3, 6)), num(11, 3)), at=12_000),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    assert own_time(profile) == {"work": 2_000, "main": 500}
    assert own_time(profile, "misses") == {"main": 3}


def test_counters_are_counted_up_where_they_say_so(tmp_path: Path) -> None:
    def value(at: int, uuid: int, field: bytes) -> bytes:
        return packet(sub(11, num(9, 4), num(11, uuid), field), at=at)

    data = [
        packet(sub(60, num(1, 1), sub(3, num(1, 42)))),
        track(2, "queue", 1, sub(8, num(4, 10))),
        track(3, "sent", 1, sub(8, num(5, 1), sub(6, "B"))),
        value(100, 2, num(30, 4)),
        value(200, 2, fixed(44, 1.5)),
        value(100, 3, num(30, 5)),
        value(200, 3, num(30, 6)),
    ]
    profile, _ = read(b"".join(data), tmp_path)
    rows = profile.table("counters")
    values = rows["value"].to_numpy().view(np.float64).tolist()
    assert sorted(zip(rows["name"].to_list(), values, strict=True)) == [
        ("queue", 15.0),
        ("queue", 40.0),
        ("sent (B)", 5.0),
        ("sent (B)", 11.0),
    ]


def test_packed_packets_count_like_others_and_bombs_are_refused(tmp_path: Path) -> None:
    inner = thread_track(2, 42, 43) + begin(1000, "work", 2)
    data = packet(at=5) + sub(1, sub(50, zlib.compress(inner))) + end(1300, 2)
    profile, _ = read(data, tmp_path / "a")
    assert own_time(profile) == {"work": 300}
    bomb = sub(1, sub(50, zlib.compress(bytes(65 << 20), 1)))
    with pytest.raises(aiflame.AiflameError, match="no profiler writes such a file"):
        read(packet(at=5) + bomb, tmp_path / "b")


def test_what_nobody_uses_is_counted_by_name(tmp_path: Path) -> None:
    data = thread_track(2, 42, 43) + begin(10, "a", 2) + end(20, 2) + packet(sub(1, num(1, 0)), at=5) * 3 + packet(sub(777, b"x"), at=6)
    _, making = read(data, tmp_path)
    assert making.unused["ftrace (scheduling and other events of the kernel)"] == 3
    assert making.unused["packets with field 777"] == 1
