"""Perfetto's traces: made ones whose answer is known, and real ones compared with a reckoning by the standard library."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from damage import content, damaged_copies, survives
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto_packets import begin, end, fact, fixed, num, packet, sub, thread_track, track
from protobuf_fields import fields

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import tree
from aiflame.exchange.readers import protobuf
from aiflame.exchange.readers.formats import format_of
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.perfetto.many_messages import Batch, split
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.door import Folder
from aiflame.profile.tables.interface import Tables

MORE = Path(os.environ.get("AIFLAME_TRACES", "/nonexistent"), "perfetto")
REAL = sorted(file for file in MORE.glob("*") if file.name.startswith(("atrium", "made-chromium", "litSink")))
SMALL = sorted(file for file in MORE.glob("perfetto-*") if file.stat().st_size < 2000)
CLEARED = num(13, 1)


def read(data: bytes, folder: Path) -> tuple[Tables, Making]:
    folder.mkdir(exist_ok=True)
    file = folder / "trace"
    file.write_bytes(data)
    source = Source.open(file)
    of = format_of(source.head)
    assert of is not None and of.name == "Perfetto"
    making = Making(Folder.new(folder / "made"))
    of.read(source, making, lambda share: None)
    making.finish(of.name, ("trace",), "0")
    return aiflame.open(folder / "made").store, making


def own_time(profile: Tables, metric: str = "wall-time") -> dict[str, int]:
    times: Counter[str] = Counter()
    for row in top(tree(profile, metric, "code"), "function", metric).to_dicts():
        times[row["name"]] += row["self"]
    return {name: time for name, time in times.items() if time}


MESSAGE = st.lists(
    st.one_of(
        st.builds(num, st.integers(1, 5000), st.integers(0, (1 << 64) - 1)),
        st.builds(fixed, st.integers(1, 20), st.integers(0, (1 << 64) - 1)),
        st.builds(lambda field, data: sub(field, data), st.integers(1, 300), st.binary(max_size=200)),
        st.builds(lambda field, data: bytes([field << 3 | 5]) + data, st.integers(1, 15), st.binary(min_size=4, max_size=4)),
        st.binary(max_size=6),
    ),
    max_size=80,
).map(b"".join)


@given(st.lists(MESSAGE, max_size=6), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_many_messages_have_the_fields_that_each_has_by_itself(messages: list[bytes], times: int) -> None:
    every = messages * times
    places = np.cumsum([0, *map(len, every)])
    parsed = split(Batch(b"".join(every)), places[:-1], places[1:])
    data, order = b"".join(every), np.argsort(parsed.message, kind="stable")
    rows: dict[int, list[tuple[int, int | bytes]]] = defaultdict(list)
    for row in order.tolist():
        value, stop = int(parsed.value[row]), int(parsed.end[row])
        rows[int(parsed.message[row])].append((int(parsed.number[row]), value if stop < 0 else data[value:stop]))
    damaged = 0
    for number, one in enumerate(every):
        expected: list[tuple[int, int | bytes]] = []
        try:
            for field, value in protobuf.fields(one):
                assert field < 1 << 29
                expected.append((field, value if isinstance(value, int) else bytes(value)))
        except (protobuf.DamagedError, AssertionError):
            damaged += 1
        assert rows[number] == expected
    assert parsed.damaged == damaged


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


def reckoned(data: bytes) -> Counter[str]:
    """The own time of slices by name, by a walk over all packets."""
    threads: dict[int, tuple[dict[int, str], dict[str, int]]] = {}
    running: dict[int, tuple[int, int, bool]] = {}
    events: list[tuple[int, int, int, str]] = []
    for _, body in fields(data):
        plain = dict(fields(body))  # type: ignore[arg-type]
        sequence = int(plain.get(10, 0))
        names, state = threads.setdefault(sequence, ({}, {}))
        if int(plain.get(13, 0)) & 1 or plain.get(41):
            names.clear()
            state.clear()
        for field, inner in fields(plain.get(12, b"")):  # type: ignore[arg-type]
            if field == 2:
                entry = dict(fields(inner))  # type: ignore[arg-type]
                names[int(entry[1])] = entry[2].decode("utf-8", "replace")  # type: ignore[union-attr]
        if 59 in plain:
            given = dict(fields(plain[59]))  # type: ignore[arg-type]
            state["clock"] = int(given.get(58, 0))
            state["track"] = int(dict(fields(given.get(11, b""))).get(11, 0))  # type: ignore[arg-type]
        for field, inner in fields(plain.get(6, b"")):  # type: ignore[arg-type]
            if field == 1:
                one = dict(fields(inner))  # type: ignore[arg-type]
                if one[1] == 64:
                    running[sequence] = int(one.get(2, 0)), int(one.get(4, 1)), bool(one.get(3))
        time = int(plain.get(8, 0))
        if 8 in plain and int(plain.get(58, state.get("clock", 0))) == 64:
            last, factor, counts = running[sequence]
            time = last + time if counts else time
            running[sequence] = time, factor, counts
            time *= factor
        if 11 in plain:
            event = dict(fields(plain[11]))  # type: ignore[arg-type]
            if event.get(9) in (1, 2):
                name = event[23].decode("utf-8", "replace") if 23 in event else names.get(int(event.get(10, 0)), "")  # type: ignore[union-attr]
                events.append((int(event.get(11, state.get("track", 0))), time, int(event[9]), name))
    own: Counter[str] = Counter()
    stacks: dict[int, list[tuple[str, int, list[int]]]] = defaultdict(list)
    for of, time, kind, name in sorted(events, key=lambda one: one[1]):
        if kind == 1:
            stacks[of].append((name, time, [0]))
        elif stacks[of]:
            called, began, inside = stacks[of].pop()
            own[called] += time - began - inside[0]
            if stacks[of]:
                stacks[of][-1][2][0] += time - began
    return own


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_real_traces_have_the_own_times_that_a_walk_over_them_finds(file: Path, tmp_path: Path) -> None:
    data = content(file)
    profile, making = read(data, tmp_path)
    expected = {name or "[no name]": time for name, time in reckoned(data).items() if time}
    assert not any("no end" in note or "cut" in note for note in making.notes)
    parsed = own_time(profile) if expected else {}
    assert parsed.keys() == expected.keys()
    # Between two snapshots the clocks of a trace drift by less than a microsecond. Only a few slices last over a snapshot.
    drift = 2000 if file.name.startswith("made-chromium") else 0
    assert all(abs(parsed[name] - time) <= drift for name, time in expected.items())


@pytest.mark.parametrize("file", SMALL, ids=lambda file: file.name)
def test_perfettos_own_examples_are_profiles(file: Path, tmp_path: Path) -> None:
    profile, making = read(file.read_bytes(), tmp_path) if file.name != "perfetto-gpu_info.pftrace" else (None, None)
    assert making is None or (profile is not None and not any("damaged" in note for note in making.notes))


HEAP = sub(5, sub(2, num(1, 1), num(2, 9)))
EVERYTHING = b"".join(
    [
        packet(sub(6, sub(1, num(1, 6), num(2, 100)), sub(1, num(1, 1), num(2, 1 << 60))), CLEARED),
        packet(sub(60, num(1, 1), sub(3, num(1, 42), sub(6, "app")))),
        thread_track(2, 42, 43, "worker"),
        track(3, "requests", 1),
        track(4, "queue", 1, sub(8, num(4, 10))),
        packet(sub(12, sub(1, num(1, 1), sub(2, "cat")), sub(2, num(1, 1), sub(2, "interned")), sub(1000, num(1, 5), sub(2, "_Z3addv")))),
        *(
            begin(1000 + 100 * at, f"call {at}", 2 + at % 2, fact("key", at), fixed(47, at)) + end(1050 + 100 * at, 2 + at % 2)
            for at in range(20)
        ),
        packet(sub(53, num(1, 8), num(2, 500), num(13, 3), num(5, 1), num(19, 5)), at=100),
        packet(sub(135, sub(1, num(2, 7), num(3, 8)), sub(5, sub(1, sub(1, "main"))), num(11, 2_000)), at=10_000),
        packet(
            sub(
                37,
                sub(1, num(1, 1), sub(2, "f")),
                sub(2, num(1, 1), num(2, 1)),
                sub(3, num(1, 1), num(2, 1)),
                sub(5, sub(2, num(1, 1), num(2, 9))),
            )
        ),
        packet(sub(11, num(9, 4), num(11, 4), num(30, 4)), at=100),
        sub(1, sub(50, zlib.compress(begin(5000, "packed", 2) + end(5100, 2)))),
    ]
)


def test_a_damaged_trace_is_a_profile_or_an_error_in_a_sentence(tmp_path: Path) -> None:
    of = format_of(EVERYTHING)
    assert of is not None and of.name == "Perfetto"
    outcomes = [survives(of, copy, tmp_path / str(number)) for number, copy in enumerate(damaged_copies(EVERYTHING, 200, 11))]
    assert sum(outcomes) > 100


def test_other_files_of_protobuf_are_not_taken_for_a_trace() -> None:
    for file in (Path(__file__).parents[3] / "data" / "traces" / "pprof").glob("*.gz"):
        of = format_of(gzip.decompress(file.read_bytes())[: 1 << 20])
        assert of is not None and of.name == "pprof"
