"""The tables of a report: rows with the truth that was written down, columns as they say."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from device_work import MS, every_counter
from examples import COSTLY
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row
from small_program import SYMBOLS, InMemory, damaged
from stories import DEVICE, ITEM, LOOP, MAIN, US, Story
from test_summary import training

from aiflame.analyze.device.occupancy import STATES
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.scope import analysis_of
from aiflame.analyze.tables.all import tables
from aiflame.analyze.tables.table import TableOf
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.tree import Kind
from aiflame.attribute.trees.build import tree
from aiflame.profile.folder.meta import Meta
from aiflame.profile.tables.interface import Tables

DAMAGED = (
    *("kernels", "copies", "launches", "syncs", "regions", "region_ends", "cpu_samples", "graph_nodes"),
    *("gpu_samples", "gpu_windows", "gpu_functions", "stall_reasons", "threads", "stacks"),
)


def found(profile: Tables) -> dict[str, TableOf]:
    return {table.name: table for table in tables(profile)}


def test_every_table_has_the_columns_that_it_says(tmp_path: Path) -> None:
    listed = tables(analysis_of(training(tmp_path), whole_run=True))
    assert [table.name for table in listed] == [
        *("kernels", "copies", "idle", "gaps", "layers", "ops", "phases", "steps"),
        *("functions", "lines", "functions-wall-time", "lines-wall-time"),
    ]
    for table in listed:
        assert table.rows.columns == [column.name for column in table.columns]
        assert not table.rows.is_empty()
        for column in table.columns:
            text = table.rows.schema[column.name] == pl.String
            assert text == (column.kind in ("text", "place")), (table.name, column)
        for share in (column.name for column in table.columns if column.kind == "share"):
            assert table.rows[share].is_between(0, 1 + 1e-9).all()


def test_a_kernel_has_its_launches_spread_shape_layer_and_stall(tmp_path: Path) -> None:
    story, now = Story(), 0.0
    for length in (*range(1, 100), 1000):
        story.layer_work(now, now, now + length, "model", "model/attn" if length > 5 else "model/mlp", name="sgemm")
        story.kernels[-1] |= {"registers": 64, "static_shared": 1024, "dynamic_shared": 2048, "grid_x": 8 if length > 50 else 4}
        now += length
    story.work(now, now, now + 50, LOOP, name="softmax")
    story.sampled("sgemm", {"selected": 10, "wait": 30, "barrier": 60})
    rows = found(story.profile(tmp_path))["kernels"].rows
    gemm = rows.row(0, named=True)
    total = 99 * 100 // 2 + 1000
    assert (gemm["short"], gemm["family"], gemm["launches"], gemm["total"]) == ("sgemm", "gemm", 100, total * US)
    assert gemm["share"] == pytest.approx(total / (total + 50))
    assert (gemm["min"], gemm["max"], gemm["mean"]) == (1 * US, 1000 * US, round(total * US / 100))
    assert gemm["p50"] in (50 * US, 51 * US)
    assert gemm["p99"] in (99 * US, 1000 * US)
    assert (gemm["registers"], gemm["shared"], gemm["shapes"]) == (64, 3072, 2)
    assert (gemm["layer"], gemm["stall"], gemm["place"]) == ("attn", "barrier 60%", "/app/train.py:1")
    softmax = rows.row(1, named=True)
    assert (softmax["short"], softmax["stall"], softmax["place"], softmax["layer"]) == ("softmax", "", "/app/train.py:8", "")


def test_the_kernels_of_a_table_have_the_trees_times(tmp_path: Path) -> None:
    profile = training(tmp_path)
    listed = found(analysis_of(profile, whole_run=True))
    whole = tree(profile, "gpu-time")
    idle = int(whole.values["gpu-time"][whole.kinds() == Kind.GPU_IDLE].sum())
    assert listed["kernels"].rows["total"].sum() + listed["copies"].rows["total"].sum() == whole.total("gpu-time") - idle
    assert listed["idle"].rows["total"].sum() == idle
    assert listed["phases"].rows["total"].sum() == tree(profile, "gpu-time", by="phase").total("gpu-time") - idle


def test_copies_have_their_rate(tmp_path: Path) -> None:
    story = Story()
    for number in range(3):
        story.work(100 * number, 100 * number, 100 * number + 10, LOOP, name="HOST_TO_DEVICE")
        story.copies[-1]["bytes"] = 1_000_000
    story.work(400, 400, 420, ITEM, name="DEVICE_TO_HOST")
    rows = found(story.profile(tmp_path))["copies"].rows
    assert rows.select("short", "device", "launches", "bytes", "total", "rate", "place").rows() == [
        ("[copy host→device]", DEVICE, 3, 3_000_000, 30 * US, pytest.approx(1e11), "/app/train.py:8"),
        ("[copy device→host]", DEVICE, 1, 100, 20 * US, pytest.approx(5e6), "/app/train.py:31"),
    ]


def test_layers_alike_are_one_row_of_their_own_table(tmp_path: Path) -> None:
    story, now = Story(), 0.0
    for number in range(3):
        for part in ("attn", "mlp"):
            story.layer_work(now, now, now + 10 + number, "model", f"model/layers.{number}", f"model/layers.{number}.{part}")
            now += 20
    listed = found(story.profile(tmp_path))
    assert listed["layers"].rows["layer"].to_list()[:2] == ["layers.2.attn", "layers.2.mlp"]
    groups = listed["layer-groups"].rows.select("group", "layers", "total", "forward", "backward", "launches").rows()
    assert groups == [("layers.*.attn", 3, 33 * US, 33 * US, 0, 3), ("layers.*.mlp", 3, 33 * US, 33 * US, 0, 3)]


def test_steps_have_the_activity_of_their_devices(tmp_path: Path) -> None:
    steps = found(training(tmp_path))["steps"].rows
    assert steps.select("step", "took", "busy", "idle", "copies").rows() == [
        *[(number, 100 * US, 60 * US, 40 * US, 0) for number in range(3)],
        (3, 300 * US, 60 * US, 240 * US, 0),
        (4, 70 * US, 60 * US, 10 * US, 0),
    ]


def test_a_program_on_the_cpu_has_functions_and_lines(tmp_path: Path) -> None:
    story = Story()
    for moment in range(10):
        story.met(moment, MAIN, ("work", "/app/math.py", 4 + moment // 6), clock=0)
    listed = found(story.profile(tmp_path))
    assert list(listed) == ["functions", "lines"]
    functions = listed["functions"].rows.select("name", "self", "self_share", "total_share").rows()
    assert functions == [("work", 50_000_000, 1.0, 1.0), ("train", 0, 0.0, 1.0)]


def test_nothing_has_no_tables(tmp_path: Path) -> None:
    profile = Story().profile(tmp_path, symbols=SYMBOLS)
    assert tables(profile) == []


def test_a_thread_may_have_any_number_of_32_bits(tmp_path: Path) -> None:
    story = Story()
    for moment in range(3):
        story.work(10 * moment, 10 * moment, 10 * moment + 5, thread=(1 << 31) + moment)
    assert found(story.profile(tmp_path))["kernels"].rows["launches"].to_list() == [3]


@COSTLY
@given(st.fixed_dictionaries({name: damaged(name) for name in DAMAGED}))
def test_damaged_records_have_a_summary_findings_and_tables(tables_of: dict[str, list[Row]]) -> None:
    processes = [{"pid": 1}, {"process": 1, "pid": 2}]
    profile = InMemory({"processes": processes, "symbols": SYMBOLS, "kernel_shapes": [{"name": "k", "device": "g"}], **tables_of})
    analysis = Analysis(profile)
    summary = summarize(analysis, Meta())
    assert all(sum(getattr(one, f"{state}_ns") for state in STATES) == one.whole_ns for one in summary.occupancy)
    assert len(findings(analysis, summary)) <= 3
    assert all(not table.rows.is_empty() for table in tables(analysis))


def test_a_sample_later_than_any_time_does_no_harm() -> None:
    sample = {"time_ns": 1 << 63, "weight": 1, "period_ns": 1000}
    profile = InMemory({"processes": [{"pid": 1}], "symbols": SYMBOLS, "cpu_samples": [sample]})
    analysis = Analysis(profile)
    assert len(findings(analysis, summarize(analysis, Meta()))) <= 3


def test_kernels_and_layers_say_how_busy_they_kept_the_gpu(tmp_path: Path) -> None:
    """1 ms of gemm in a layer at activity 0.8, then 2 ms of norm in another at 0.2."""
    story = Story()
    story.layer_work(0, 0, 1000, "model", "model/layers.0", name="gemm")
    story.layer_work(1000, 1000, 3000, "model", "model/layers.1", name="norm")
    rows = every_counter(story.kernels, {"gemm": 0.8, "norm": 0.2}, 4 * MS, 100_000, device=DEVICE)
    listed = found(story.profile(tmp_path, gpu_counters=rows))
    measures = ("dram_bytes", "dram_rate", "tensor", "sm_active", "occupancy")
    busy = [pytest.approx(value, rel=1e-3) for value in (2.4e9, 2.4e12, 0.8, 0.8, 0.25)]
    idler = [pytest.approx(value, rel=1e-3) for value in (1.2e9, 6e11, 0.2, 0.2, 0.25)]
    assert {row[0]: [*row[1:]] for row in listed["kernels"].rows.select("short", *measures).rows()} == {"gemm": busy, "norm": idler}
    assert {row[0]: [*row[1:]] for row in listed["layers"].rows.select("layer", *measures).rows()} == {"layers.0": busy, "layers.1": idler}
    assert [column.kind for column in listed["kernels"].columns if column.name in measures] == ["number"] * 2 + ["share"] * 3


def test_only_what_was_counted_has_a_column(tmp_path: Path) -> None:
    story = Story()
    story.work(0, 0, 1000, name="gemm")
    rows = every_counter(story.kernels, {"gemm": 0.8}, 2 * MS, device=DEVICE)
    listed = found(story.profile(tmp_path, gpu_counters=[row for row in rows if row["metric"].startswith("dram")]))
    names = [column.name for column in listed["kernels"].columns]
    assert [name for name in ("dram_bytes", "dram_rate", "tensor", "sm_active", "occupancy") if name in names] == [
        "dram_bytes",
        "dram_rate",
    ]
