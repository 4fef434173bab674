"""The timeline block of the report: the parts of a timeline that it holds, and the parts that it leaves out where they are too many."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from made_timelines import MS, ORIGIN, stream, training, waiting
from timeline_blocks import read

from aiflame.attribute.timeline.tables import Making, SliceKind, Timeline, TrackKind
from aiflame.profile.schema.kinds import Kind
from aiflame.render.report.timeline_block import timeline_block


def test_every_slice_comes_back_with_its_times() -> None:
    timeline = training(steps=3, kernels=10)
    block = read(timeline_block(timeline))
    begin, end = block.times
    assert block.head["origin_ns"] == ORIGIN
    assert block.head["length_ns"] == (10 + 1 + 10 + 1 + 10) * MS
    for kind in (SliceKind.STEP, SliceKind.PHASE, SliceKind.CALL, SliceKind.WAIT, SliceKind.KERNEL, SliceKind.COPY, SliceKind.REGION):
        rows = block.rows(kind)
        own = timeline.slices.filter(kind=int(kind)).sort("track", "begin_ns")
        assert (begin[rows] + ORIGIN).tolist() == own["begin_ns"].to_list()
        assert (end[rows] + ORIGIN).tolist() == own["end_ns"].to_list()
        assert block.names(rows) == [timeline.names[name] for name in own["name"]]


def test_a_lane_shows_one_kind_of_a_track_and_streams_stand_below_their_device() -> None:
    block = read(timeline_block(training()))
    assert block.lanes() == [
        ("MainThread", SliceKind.STEP, 0),
        ("MainThread", SliceKind.PHASE, 0),
        ("MainThread", SliceKind.CALL, 0),
        ("MainThread", SliceKind.WAIT, 0),
        ("MainThread: regions", SliceKind.REGION, 0),
        ("Stream 7", SliceKind.KERNEL, 0),
        ("Stream 14", SliceKind.COPY, 0),
    ]
    parent = dict(zip(block.columns["track.name"], block.columns["track.parent"] - 1, strict=True))
    assert block.columns["track.name"][parent["Stream 7"]] == "NVIDIA H200"


def test_slices_of_a_lane_never_go_back_in_time() -> None:
    block = read(timeline_block(training()))
    begin, _ = block.times
    lane = block.lane
    assert ((begin[1:] >= begin[:-1]) | (lane[1:] != lane[:-1])).all()


def test_layers_keep_their_level_with_and_without_a_step_around_them() -> None:
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python")
    thread = making.track(TrackKind.THREAD, process, 0, "main")
    spans = [
        (0, 100, 0, SliceKind.STEP, "Step.0"),
        (0, 100, 1, SliceKind.PHASE, "Forward"),
        (0, 90, 2, SliceKind.LAYER, "layers.0"),
        (0, 50, 3, SliceKind.LAYER, "attn"),
        (200, 300, 0, SliceKind.PHASE, "Forward"),
        (200, 290, 1, SliceKind.LAYER, "layers.0"),
        (200, 250, 2, SliceKind.LAYER, "attn"),
    ]
    table = pl.DataFrame(spans, schema=["begin_ns", "end_ns", "depth", "kind", "name"], orient="row")
    making.slices(table.with_columns(name=pl.Series(making.names(table["name"].to_list())), track=pl.lit(thread)))
    block = read(timeline_block(making.finish()))
    levels = block.columns["lane.level"][block.lane]
    of = {
        name: set(levels[[one for one in block.rows(SliceKind.LAYER) if block.names(np.array([one])) == [name]]].tolist())
        for name in ("layers.0", "attn")
    }
    assert of == {"layers.0": {0}, "attn": {1}}


def test_a_kernel_knows_how_long_ago_it_was_launched() -> None:
    block = read(timeline_block(training()))
    assert set(block.columns["slice.delay"][block.rows(SliceKind.KERNEL)].tolist()) == {2000 + 1}
    assert set(block.columns["slice.delay"][block.rows(SliceKind.COPY)].tolist()) == {0}, "its call is not known"


def test_facts_stand_at_the_slices_that_have_them() -> None:
    block = read(timeline_block(training(steps=1, kernels=4)))
    kernels = block.rows(SliceKind.KERNEL)
    facts = [block.facts(row) for row in kernels.tolist()]
    attn = {"layer": "layers.0.attn", "stack": "model.py:41 forward", "registers": 64}
    mlp = {"layer": "layers.0.mlp", "stack": "model.py:57 forward", "registers": 128}
    assert facts == [attn, mlp, attn, mlp]
    assert set(block.columns["slice.facts"][block.rows(SliceKind.STEP)].tolist()) == {0}


@pytest.mark.parametrize("most", [100, 1000, 5000])
def test_short_neighbours_are_merged_when_there_are_too_many(most: int) -> None:
    random = np.random.default_rng(7)
    length = random.integers(1, 40, 20_000) * 1000
    length[[500, 7000]] = 20 * MS  # long ones stay
    begin = ORIGIN + np.cumsum(length + 500) - length
    block = read(timeline_block(stream(begin, begin + length, ["a", "b", "c"]), most=most))
    first, last = block.times
    count, busy = block.columns["slice.count"], last - first - block.columns["slice.idle"]
    assert len(count) <= most
    assert int(count.sum()) == 20_000
    assert int(busy.sum()) == int(length.sum())
    assert block.head["merged"]["slices"] == 20_000
    alone = np.flatnonzero((count == 1) & (last - first == 20 * MS))
    assert first[alone].tolist() == [int(begin[row] - ORIGIN - (begin[0] - ORIGIN)) for row in (500, 7000)]


def test_layers_are_merged_before_kernels_are() -> None:
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python")
    thread = making.track(TrackKind.THREAD, process, 0, "main")
    device = making.track(TrackKind.STREAM, process, 0, "Stream 7", number=7)
    begin = ORIGIN + np.arange(900) * 1000
    rows = pl.DataFrame({"begin_ns": begin, "end_ns": begin + 500, "name": np.repeat(making.names(["x"]), 900)})
    for track, kind in ((thread, SliceKind.LAYER), (device, SliceKind.KERNEL)):
        making.slices(rows.with_columns(track=pl.lit(track), depth=pl.lit(0), kind=pl.lit(int(kind))))
    block = read(timeline_block(making.finish(), most=1000))
    assert block.columns["slice.count"][block.rows(SliceKind.KERNEL)].tolist() == [1] * 900
    layers = block.columns["slice.count"][block.rows(SliceKind.LAYER)]
    assert len(layers) <= 250
    assert int(layers.sum()) == 900
    assert block.head["merged"] == {"slices": 1800, "detail_ns": block.head["merged"]["detail_ns"], "bin_ns": 0}
    assert (np.diff(block.times[0])[np.diff(block.lane) == 0] >= 0).all()


def test_a_merged_span_has_the_name_of_its_longest_slice() -> None:
    begin = ORIGIN + np.arange(3000) * 1000
    length = np.where(np.arange(3000) % 3 == 1, 800, 100)
    block = read(timeline_block(stream(begin, begin + length, ["short", "long", "other"]), most=50))
    assert set(block.names(np.arange(len(block.columns["slice.name"])))) == {"long"}


def test_slices_that_fit_are_not_merged_and_calls_are_dropped_before_kernels() -> None:
    timeline = training(steps=4, kernels=50)
    assert read(timeline_block(timeline)).head["merged"] is None
    few = read(timeline_block(timeline, most=250))
    assert few.head["left_out"] == ["calls"]
    assert few.head["merged"] is None
    assert len(few.rows(SliceKind.KERNEL)) == 200


def test_a_window_has_only_the_work_that_runs_in_it() -> None:
    window = (ORIGIN + 3 * MS, ORIGIN + 5 * MS)
    block = read(timeline_block(training(), window=window))
    begin, end = block.times
    assert (block.head["origin_ns"], block.head["length_ns"]) == (window[0], 2 * MS)
    assert begin.min() >= 0
    assert end.max() <= 2 * MS
    assert block.names(block.rows(SliceKind.STEP)) == ["Step.0"]


def test_a_record_from_before_its_program_is_left_out() -> None:
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python", begin_ns=ORIGIN)
    track = making.track(TrackKind.STREAM, process, 0, "Stream 7", number=7)
    rows = pl.DataFrame({"begin_ns": [3, ORIGIN + 5], "end_ns": [9, ORIGIN + 7], "name": making.names(["damaged", "gemm"])})
    making.slices(rows.with_columns(track=pl.lit(track), depth=pl.lit(0), kind=pl.lit(int(SliceKind.KERNEL))))
    block = read(timeline_block(making.finish()))
    assert block.names(block.rows(SliceKind.KERNEL)) == ["gemm"]
    assert block.head["length_ns"] == 2


def test_hostile_names_are_cut_and_cleaned() -> None:
    begin = ORIGIN + np.arange(3) * 100
    block = read(timeline_block(stream(begin, begin + 50, ["x" * 100_000, "a\x00b\u202e", "</script><!--"])))
    names = set(block.columns["name"])
    assert max(map(len, names)) < 1000
    assert "a\ufffdb\ufffd" in names
    assert "</script><!--" in names


def test_an_empty_timeline_is_a_block_too() -> None:
    block = read(timeline_block(Making().finish()))
    assert block.head["length_ns"] == 0
    assert block.lanes() == []


def test_a_kernel_takes_few_bytes() -> None:
    random = np.random.default_rng(3)
    length = np.round(random.lognormal(9, 1, 200_000)).astype(np.int64)
    begin = ORIGIN + np.cumsum(length + random.integers(500, 3000, 200_000)) - length
    timeline: Timeline = stream(begin, begin + length, [f"kernel_{number}" for number in range(40)])
    assert len(timeline_block(timeline)) < 6 * 200_000


def test_running_and_waiting_add_up_to_the_time_of_threads() -> None:
    report = read(timeline_block(waiting()))
    assert report.head["sampled"] == [[SliceKind.FUNCTION, 70 * MS], [SliceKind.WAITING, 130 * MS]]
    assert report.head["kinds"][str(int(SliceKind.WAITING))] == {"label": "waiting", "color": int(Kind.WAIT)}
    assert [report.names(report.rows(SliceKind.WAITING)), len(report.rows(SliceKind.FUNCTION))] == [["[I/O]", "[sleep]"], 2]
