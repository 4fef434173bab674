"""A profile as a timeline: tracks, slices that nest, arrows from calls to their work."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import sealed
from timelines import Program, Shown, check_nesting

import aiflame
from aiflame.attribute.timeline.spans import lanes, nested_lanes, pieces
from aiflame.attribute.timeline.tables import SliceKind, TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import AllocationKind, CopyKind, GpuApi, PayloadType, RegionApi, RegionKind, SampleState, SyncKind

CALL, KERNEL, COPY, WAIT = SliceKind.CALL, SliceKind.KERNEL, SliceKind.COPY, SliceKind.WAIT


@pytest.fixture
def program() -> Program:
    return Program()


def test_launches_of_one_layer_that_follow_each_other_are_one_span(tmp_path: Path, program: Program) -> None:
    program.launch(10, 12, "", "layers.0", "mm")
    program.launch(20, 22, "", "layers.0", "mm")
    program.launch(30, 32, "", "layers.0", "layers.0.attn", "add")
    program.launch(40, 42, "", "layers.1", "mm")
    shown = program.shown(tmp_path)
    assert shown.slices(SliceKind.PHASE) == [("Forward", 10, 42, 0)]
    assert shown.slices(SliceKind.LAYER) == [("layers.0", 10, 32, 1), ("attn", 30, 32, 2), ("layers.1", 40, 42, 1)]
    assert shown.slices(SliceKind.OP) == [("aten::mm", 10, 22, 2), ("aten::add", 30, 32, 3), ("aten::mm", 40, 42, 2)]
    assert [(begin, depth) for _, begin, _, depth in shown.slices(CALL)] == [(10, 3), (20, 3), (30, 4), (40, 3)]
    check_nesting(shown.timeline)


def test_a_layer_that_others_interrupt_is_several_spans(tmp_path: Path, program: Program) -> None:
    for begin, layer in ((10, "layers.0"), (20, "layers.1"), (30, "layers.0")):
        program.launch(begin, begin + 2, "", layer, "mm")
    assert program.shown(tmp_path).slices(SliceKind.LAYER) == [("layers.0", 10, 12, 1), ("layers.1", 20, 22, 1), ("layers.0", 30, 32, 1)]


def test_threads_do_not_share_spans(tmp_path: Path, program: Program) -> None:
    program.launch(10, 12, "", "layers.0", "mm")
    program.launch(15, 17, "", "layers.0", "mm", thread=2)
    program.launch(20, 22, "", "layers.0", "mm")
    shown = program.shown(tmp_path)
    assert shown.slices(SliceKind.LAYER) == [("layers.0", 10, 22, 1), ("layers.0", 15, 17, 1)]
    assert shown.tracks(TrackKind.THREAD) == ["train.py/main thread", "train.py/worker"]


def test_calls_that_know_nothing_but_their_time_have_nothing_around_them(tmp_path: Path, program: Program) -> None:
    program.launch(10, 12)
    assert program.shown(tmp_path).slices() == [("cudaLaunchKernel", 10, 12, 0)]


def test_an_arrow_leads_from_each_launch_to_its_kernel(tmp_path: Path, program: Program) -> None:
    first, second = program.launch(10, 12), program.launch(20, 22)
    program.kernel(second, 40, 50, "second")
    program.kernel(first, 30, 39, "first")
    rows = program.shown(tmp_path).table
    arrows = {begin: (flow, flows) for begin, flow, flows in rows.filter(kind=int(CALL)).select("begin_ns", "flow", "flows").rows()}
    ends = dict(rows.filter(kind=int(KERNEL)).select("name", "flow").rows())
    assert arrows == {10: (ends["first"], 1), 20: (ends["second"], 1)}
    assert ends["first"] != ends["second"]


def test_a_graph_is_one_launch_with_an_arrow_to_each_of_its_kernels(tmp_path: Path, program: Program) -> None:
    launch = program.launch(10, 12)
    captured = program.stack("", "layers.0", "mm")
    program.rows("graph_nodes", *({"node": node, "stack": captured, "thread": 1, "time_ns": 5} for node in (91, 92, 93)))
    for at, node in enumerate((91, 92, 93)):
        program.kernel(launch, 20 + 10 * at, 29 + 10 * at, "captured", node=node)
    shown = program.shown(tmp_path)
    (first, count) = shown.table.filter(kind=int(CALL)).select("flow", "flows").row(0)
    ends = shown.table.filter(kind=int(KERNEL))["flow"].to_list()
    assert sorted(ends) == list(range(first, first + count))
    assert count == 3
    assert shown.facts("captured")["layer"] == "layers.0", "the layer is that of the capture"
    assert shown.facts("captured")["captured"] == ["model.py:41 Block.forward", "model.py:41 Block.forward", "train.py:12 train"]
    assert shown.facts("cudaLaunchKernel")["records"] == 3


def test_no_arrow_leads_back_in_time_or_from_nowhere(tmp_path: Path, program: Program) -> None:
    launch = program.launch(10, 12)
    program.kernel(launch, 9, 15, "early")
    program.kernel(999, 20, 25, "orphan")
    shown = program.shown(tmp_path)
    assert [name for name, *_ in shown.slices(KERNEL)] == ["early", "orphan"]
    assert shown.table["flow"].sum() == shown.table["flows"].sum() == 0


def test_a_kernel_names_its_step_and_layer_and_its_launch(tmp_path: Path, program: Program) -> None:
    program.kernel(program.launch(10, 12, "", "layers.0", "mm"), 20, 30)
    facts = program.shown(tmp_path).facts("gemm")
    expected = {"layer": "layers.0", "op": "aten::mm", "phase": "Forward", "grid": "4 × 2 × 1", "block": "128 × 1 × 1", "registers": 40}
    assert {key: facts[key] for key in expected} == expected
    assert facts["stack"] == ["model.py:41 Block.forward", "model.py:41 Block.forward", "train.py:12 train"]


def test_above_a_stream_stand_the_layers_of_its_kernels(tmp_path: Path, program: Program) -> None:
    for at, layer in enumerate(("layers.0", "layers.1")):
        program.kernel(program.launch(10 + at, 10 + at, "", layer, "mm"), 20 + 10 * at, 28 + 10 * at)
    shown = program.shown(tmp_path)
    assert shown.slices(SliceKind.LAYER, track=TrackKind.PURPOSE) == [("layers.0", 20, 28, 1), ("layers.1", 30, 38, 1)]
    assert shown.tracks(TrackKind.PURPOSE) == ["train.py/GPU [0]/Stream 7: layers"]


def test_kernels_that_overlap_on_a_stream_lie_on_tracks_with_one_name(tmp_path: Path, program: Program) -> None:
    launch = program.launch(1, 2)
    for name, start, end in (("a", 10, 20), ("b", 15, 30), ("c", 20, 25), ("d", 16, 17)):
        program.kernel(launch, start, end, name)
    shown = program.shown(tmp_path)
    assert shown.tracks(TrackKind.STREAM) == ["train.py/GPU [0]/Stream 7"] * 3
    of = dict(shown.table.filter(kind=int(KERNEL)).select("name", "track").rows())
    assert of["a"] == of["c"]
    assert len({of["a"], of["b"], of["d"]}) == 3
    check_nesting(shown.timeline)


def test_streams_and_devices_have_their_own_tracks(tmp_path: Path, program: Program) -> None:
    launch = program.launch(1, 2)
    program.kernel(launch, 10, 20, stream=7)
    program.kernel(launch, 10, 20, stream=8)
    program.kernel(launch, 10, 20, stream=7, device="GPU [1]")
    program.kernel(launch, 10, 20, device="", name="nowhere")
    tracks = program.shown(tmp_path).tracks(TrackKind.STREAM)
    assert tracks == [
        "train.py/GPU [0]/Stream 7",
        "train.py/GPU [0]/Stream 8",
        "train.py/GPU [1]/Stream 7",
        "train.py/[unknown device]/Stream 7",
    ]


def test_copies_stand_among_the_kernels_of_their_stream_and_are_counted(tmp_path: Path, program: Program) -> None:
    launch = program.launch(1, 2)
    columns = {"kind": CopyKind.HOST_TO_DEVICE, "device": "GPU [0]", "api": GpuApi.CUDA, "correlation": launch, "stream": 7}
    program.rows("copies", {**columns, "start_ns": 10, "end_ns": 20, "bytes": 100}, {**columns, "start_ns": 30, "end_ns": 40, "bytes": 28})
    shown = program.shown(tmp_path)
    assert shown.slices(COPY) == [("[copy host→device]", 10, 20, 0), ("[copy host→device]", 30, 40, 0)]
    assert shown.timeline.points.select("time_ns", "value").rows() == [(20, 100.0), (40, 128.0)]
    assert shown.timeline.tracks.filter(kind=int(TrackKind.COUNTER)).select("name", "unit").rows() == [
        ("copy host→device GPU [0]", "bytes")
    ]


def test_a_wait_lies_in_its_call_and_without_one_below_its_process(tmp_path: Path, program: Program) -> None:
    launch = program.launch(10, 50, "", "layers.0", "mm")
    wait = {"kind": SyncKind.STREAM, "api": GpuApi.CUDA, "start_ns": 12, "end_ns": 60}
    program.rows("syncs", {**wait, "correlation": launch}, {**wait, "correlation": 999, "kind": SyncKind.EVENT})
    shown = program.shown(tmp_path)
    assert shown.slices(WAIT, track=TrackKind.THREAD) == [("[wait for a stream]", 12, 50, 4)]
    assert shown.slices(WAIT, track=TrackKind.REGIONS) == [("[wait for an event]", 12, 60, 0)]
    check_nesting(shown.timeline)


def test_of_two_waits_in_one_call_the_second_is_set_apart(tmp_path: Path, program: Program) -> None:
    launch = program.launch(10, 50)
    wait = {"kind": SyncKind.STREAM, "api": GpuApi.CUDA, "correlation": launch}
    program.rows("syncs", {**wait, "start_ns": 12, "end_ns": 30}, {**wait, "start_ns": 20, "end_ns": 40})
    shown = program.shown(tmp_path)
    assert [row[1:3] for row in shown.slices(WAIT, track=TrackKind.THREAD)] == [(12, 30)]
    assert [row[1:3] for row in shown.slices(WAIT, track=TrackKind.REGIONS)] == [(20, 40)]
    check_nesting(shown.timeline)


def test_collectives_communicate_wherever_they_are_launched(tmp_path: Path, program: Program) -> None:
    program.kernel(
        program.launch(10, 12, "", "layers.0", "mm"), 20, 30, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)"
    )
    assert program.shown(tmp_path).slices(SliceKind.PHASE, track=TrackKind.PURPOSE) == [("Communication", 20, 30, 0)]


def test_steps_hold_their_phases_and_a_copy_that_brings_data_loads_it(tmp_path: Path, program: Program) -> None:
    for step in range(4):
        at = 1000 * step
        bring = program.launch(at + 100, at + 110)
        copy = {"kind": CopyKind.HOST_TO_DEVICE, "device": "GPU [0]", "api": GpuApi.CUDA, "correlation": bring, "stream": 7, "bytes": 8}
        program.rows("copies", {**copy, "start_ns": at + 120, "end_ns": at + 130})
        program.kernel(program.launch(at + 200, at + 210, "", "layers.0", "mm"), at + 220, at + 230)
        region = {
            "name": "optimizer",
            "domain": "aiflame",
            "api": RegionApi.AUTOMATIC,
            "kind": RegionKind.NESTED,
            "thread": 1,
            "payload": 64,
        }
        program.rows("regions", {**region, "begin_ns": at + 300})
        program.launch(at + 310, at + 320)
        program.rows("region_ends", {"region": step + 1, "thread": 1, "end_ns": at + 400})
    shown = program.shown(tmp_path)
    spans = [row for row in shown.slices(SliceKind.STEP, SliceKind.PHASE, track=TrackKind.PURPOSE) if 1000 <= row[1] < 2000]
    assert spans == [("Step.1", 1120, 1230, 0), ("Data loading", 1120, 1130, 1), ("Forward", 1220, 1230, 1)]
    on_thread = shown.slices(SliceKind.STEP, SliceKind.PHASE, track=TrackKind.THREAD)
    assert ("Step.1", 1100, 1320, 0) in on_thread
    assert ("Optimizer", 1310, 1320, 1) in on_thread
    check_nesting(shown.timeline)


def test_calls_that_overlap_are_set_apart(tmp_path: Path, program: Program) -> None:
    for begin, end in ((10, 30), (20, 40), (30, 35)):
        program.launch(begin, end, "", "layers.0", "mm")
    shown = program.shown(tmp_path)
    assert [begin for _, begin, _, _ in shown.slices(CALL, track=TrackKind.THREAD)] == [10, 30]
    assert [begin for _, begin, _, _ in shown.slices(CALL, track=TrackKind.REGIONS)] == [20]
    check_nesting(shown.timeline)


def _region(name: str, begin: int, **more: object) -> dict[str, object]:
    return {"name": name, "begin_ns": begin, "thread": 1, "kind": RegionKind.NESTED, "api": RegionApi.NVTX, **more}


def test_regions_nest_as_marked_and_overlapping_ones_lie_on_tracks_of_their_own(tmp_path: Path, program: Program) -> None:
    free = {"kind": RegionKind.FREE}
    begun = [("outer", 10, 90, {}), ("inner", 20, 30, {}), ("one", 15, 50, free), ("other", 40, 60, free), ("within", 41, 45, free)]
    program.rows("regions", *(_region(name, begin, **more) for name, begin, _, more in begun))
    program.rows("region_ends", *({"region": at, "thread": 1, "end_ns": end} for at, (_, _, end, _) in enumerate(begun, 1)))
    shown = program.shown(tmp_path)
    assert shown.slices() == [("outer", 10, 90, 0), ("one", 15, 50, 0), ("inner", 20, 30, 1), ("other", 40, 60, 0), ("within", 41, 45, 1)]
    assert sorted(shown.tracks(TrackKind.REGIONS)) == [
        "train.py/main thread/Regions",
        "train.py/main thread/Regions that may overlap",
        "train.py/main thread/Regions that may overlap",
    ]
    check_nesting(shown.timeline)


def test_domains_marks_and_frames_of_the_process_are_distinct(tmp_path: Path, program: Program) -> None:
    program.rows(
        "regions",
        _region(
            "step", 10, domain="train", category="loop", payload=np.float64(2.5).view(np.uint64).item(), payload_type=PayloadType.FLOAT
        ),
        _region("now", 15, kind=RegionKind.MARK),
        _region("frame", 12, kind=RegionKind.FRAME),
        _region("optimizer", 16, api=RegionApi.AUTOMATIC, domain="aiflame"),
    )
    program.rows("region_ends", *({"region": region, "thread": 1, "end_ns": 20} for region in (1, 3, 4)))
    program.rows("region_data", {"region": 1, "key": "loss", "value": "0.5"})
    shown = program.shown(tmp_path)
    assert dict(shown.table.select("name", "track_name").rows()) == {
        "step": "Regions: train",
        "now": "Regions",
        "frame": "Frames",
        "optimizer": "Seen by aiflame",
    }
    assert shown.slices(SliceKind.MARK) == [("now", 15, 15, 0)]
    assert shown.facts("step") == {"domain": "train", "category": "loop", "payload": "2.5", "metadata": "loss: 0.5"}


def test_counters_hold_doubles_and_memory_is_the_memory_in_use(tmp_path: Path, program: Program) -> None:
    bits = [np.float64(value).view(np.uint64).item() for value in (0.5, float("nan"), -2.0)]
    program.rows("counters", *({"name": "loss", "thread": 1, "value": value, "time_ns": 10 * at} for at, value in enumerate(bits, 1)))
    memory = {"device": "GPU [0]", "bytes": 100}
    program.rows(
        "allocations", {**memory, "kind": AllocationKind.TAKE, "time_ns": 5}, {**memory, "kind": AllocationKind.RELEASE, "time_ns": 9}
    )
    drawn = program.shown(tmp_path).timeline
    names = dict(drawn.tracks.select("track", "name").rows())
    points = [(names[track], time, value) for track, time, value in drawn.points.rows()]
    assert points == [("loss", 10, 0.5), ("loss", 30, -2.0), ("memory in use: GPU [0]", 5, 100.0), ("memory in use: GPU [0]", 9, 0.0)]


def _samples(program: Program, *samples: tuple[int, int], **columns: object) -> None:
    """Moments and stacks of samples that stand for 10 ns each."""
    constants = {"thread": 1, "weight": 1, "period_ns": 10, **columns}
    program.rows("cpu_samples", *({**constants, "time_ns": time, "stack": stack} for time, stack in samples))


def test_consecutive_samples_of_one_function_are_one_slice(tmp_path: Path, program: Program) -> None:
    one, other = program.stack("", "layers.0", "mm"), program.stack("", "layers.0", "add")
    _samples(program, (20, one), (30, one), (42, other), (142, other), (200, one), (500, one))
    shown = program.shown(tmp_path)
    functions = shown.slices(SliceKind.FUNCTION)
    assert [row for row in functions if row[0] == "train"] == [("train", 10, 200, 0), ("train", 490, 500, 0)], "a long gap is no time in it"
    assert [row[1:3] for row in functions if row[0] == "at::_ops::mm::call"] == [(10, 30), (190, 200), (490, 500)]
    assert [row[1:3] for row in functions if row[0] == "at::_ops::add::call"] == [(30, 142)], "both samples were in it"
    assert shown.slices(SliceKind.LAYER) == [("layers.0", 10, 500, 1)]
    check_nesting(shown.timeline)


def test_where_a_program_launches_kernels_the_launches_name_its_layers(tmp_path: Path, program: Program) -> None:
    program.launch(500, 510, "", "layers.1", "mm")
    _samples(program, (20, program.stack("", "layers.0", "mm")))
    assert program.shown(tmp_path).slices(SliceKind.LAYER) == [("layers.1", 500, 510, 1)]


def test_a_waiting_thread_says_so(tmp_path: Path, program: Program) -> None:
    _samples(program, (20, program.stack()), state=SampleState.WAITING, clock=1)
    assert [row[:3] for row in program.shown(tmp_path).slices(SliceKind.WAITING)] == [("[waiting]", 10, 20)]


def test_samples_can_be_left_out(tmp_path: Path, program: Program) -> None:
    _samples(program, (20, program.stack()))
    assert timeline(program.profile(tmp_path), samples=False).slices.is_empty()


def test_an_empty_profile_has_an_empty_timeline(tmp_path: Path) -> None:
    sealed(tmp_path / "p.aiflame", processes=[])
    drawn = timeline(aiflame.open(tmp_path / "p.aiflame").store)
    assert drawn.tracks.is_empty() and drawn.slices.is_empty() and drawn.points.is_empty()


def test_work_without_records_has_tracks_that_say_so(tmp_path: Path, program: Program) -> None:
    program.launch(10, 12, thread=77)
    program.rows("kernels", {"shape": 99, "start_ns": 5, "end_ns": 6})
    shown = program.shown(tmp_path)
    assert shown.tracks(TrackKind.THREAD) == ["train.py/[thread not recorded]"]
    assert shown.slices(KERNEL) == [("[unknown kernel]", 5, 6, 0)]


def test_damaged_times_still_nest(tmp_path: Path, program: Program) -> None:
    latest = 2**64 - 1
    for begin, end in ((10, 5), (latest, 3), (0, latest), (20, 20), (20, 30)):
        program.kernel(program.launch(begin, end, "", "layers.0", "mm"), begin, end)
        program.rows("regions", _region("r", begin))
        program.rows("region_ends", {"region": len(program.more["regions"]), "thread": 1, "end_ns": end})
    drawn = program.shown(tmp_path).timeline
    check_nesting(drawn)
    assert len(drawn.slices.filter(pl.col("kind") == int(KERNEL))) == len(drawn.slices.filter(pl.col("kind") == int(CALL))) == 5


_INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=30)


@given(_INTERVALS)
def test_intervals_of_one_lane_do_not_overlap_and_no_lane_is_wasted(rows: list[tuple[int, int, int]]) -> None:
    rows = sorted((group, begin, begin + length) for group, begin, length in rows)
    group, begin, end = (
        (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)) if rows else [np.zeros(0, dtype=np.int64)] * 3
    )
    lane = lanes(group, begin, end)
    for one in {row[0] for row in rows}:
        here = [(row[1], row[2], number) for row, number in zip(rows, lane.tolist(), strict=True) if row[0] == one]
        for number in {each[2] for each in here}:
            mine = [each for each in here if each[2] == number]
            assert all(first[1] <= second[0] for first, second in itertools.pairwise(mine))
        most = max(sum(a <= moment < b for a, b, _ in here) for moment in range(45))
        assert max(each[2] for each in here) < max(most, 1) + sum(a == b for a, b, _ in here)


@given(_INTERVALS)
def test_regions_of_one_lane_nest(rows: list[tuple[int, int, int]]) -> None:
    rows = sorted(((group, begin, begin + length) for group, begin, length in rows), key=lambda row: (row[0], row[1], -row[2]))
    group, begin, end = (
        (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)) if rows else [np.zeros(0, dtype=np.int64)] * 3
    )
    lane, depth = nested_lanes(group, begin, end)
    for key in {(row[0], number) for row, number in zip(rows, lane.tolist(), strict=True)}:
        around: list[int] = []
        for row, number, deep in zip(rows, lane.tolist(), depth.tolist(), strict=True):
            if (row[0], number) == key:
                around = [stop for stop in around if stop > row[1]]
                assert all(row[2] <= stop for stop in around)
                assert deep == len(around)
                around.append(row[2])


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 10))
def test_pieces_are_everything_once_and_begin_at_cuts(cuts: list[bool], least: int) -> None:
    slices = list(pieces(np.array(cuts, dtype=np.bool_), least))
    assert [place for piece in slices for place in range(piece.start, piece.stop)] == list(range(len(cuts)))
    assert all(cuts[piece.start] for piece in slices[1:])
    assert all(piece.stop - piece.start >= least for piece in slices[:-1])


def test_pieces_show_the_same_as_the_whole(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(60):
        layer = ("layers.0", "layers.1")[at // 7 % 2]
        program.kernel(program.launch(10 * at, 10 * at + 3, "", layer, "mm", thread=1 + at % 2), 10 * at + 5, 10 * at + 9)
    profile = program.profile(tmp_path)
    whole = Shown(timeline(profile))
    for module in ("calls", "work"):
        monkeypatch.setattr(f"aiflame.attribute.timeline.{module}.pieces", lambda cuts, least=5: pieces(cuts, least))
    cut = Shown(timeline(profile))
    assert cut.slices() == whole.slices()
    check_nesting(cut.timeline)
