"""`aiflame timeline` in the real Perfetto UI: its SQL counts as many slices as the profile's tables have rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto_ui import Opened, Perfetto

import aiflame
from aiflame.attribute.timeline.tables import SliceKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.cli.commands import run
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.recorder.library import collector

ROOT = Path(__file__).parents[3]
HOSTILE = ("</script><script>alert(1)</script>", "nul\0inside", "right\u202eto left", "x" * 100_000, "\U0001f525'; drop table slice; --")

STEPS = """
import aiflame, time
for step in range(3):
    with aiflame.region("step"):
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
"""


def traced(profile: Path) -> Path:
    """Written by the command."""
    target = profile.with_suffix(".pftrace")
    assert run(["timeline", str(profile), "-o", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up training run on a GPU, with samples and marks."""
    path = tmp_path_factory.mktemp("made") / "training.aiflame"
    make = [sys.executable, str(ROOT / "benchmarks" / "profiles" / "synthetic_profile.py"), str(path)]
    subprocess.run([*make, "--kernels", "6000", "--cpu-samples", "500", "--marked"], check=True)
    return path


@pytest.fixture(scope="module")
def training_trace(training: Path) -> Path:
    return traced(training)


@pytest.fixture
def open_training(perfetto: Perfetto, training_trace: Path) -> Opened:
    return perfetto.open(training_trace)


def test_the_viewer_counts_what_the_tables_have(open_training: Opened, training: Path) -> None:
    profile = aiflame.open(training).store
    counts = dict(open_training.sql("select category, count(*) from slice group by 1"))
    for category, table in (("kernel", "kernels"), ("copy", "copies"), ("call", "launches"), ("wait", "syncs"), ("region", "regions")):
        assert counts[category] == len(profile.table(table)) > 0, table
    slices = timeline(profile).slices.group_by("kind").len()
    assert counts == {SliceKind(kind).name.lower(): count for kind, count in slices.rows()}
    assert open_training.problems() == []


def test_every_kernel_has_its_arrow_from_its_launch(open_training: Opened, training: Path) -> None:
    profile = aiflame.open(training).store
    pairs = open_training.sql(
        """select o.ts, i.ts, o.category, i.category from flow
           join slice o on flow.slice_out = o.id join slice i on flow.slice_in = i.id order by 1, 2"""
    )
    assert {pair[2:] for pair in pairs} == {("call", "kernel"), ("call", "copy")}
    executions = pl.concat([profile.table(name).select("correlation", "start_ns") for name in ("kernels", "copies")])
    joined = profile.table("launches").join(executions, on="correlation").select("begin_ns", "start_ns").sort("begin_ns", "start_ns")
    assert [pair[:2] for pair in pairs] == joined.rows()


def test_slices_nest_as_in_the_timeline(open_training: Opened, training: Path) -> None:
    drawn = timeline(aiflame.open(training).store)
    expected = drawn.slices.select(
        "begin_ns", pl.col("end_ns") - pl.col("begin_ns"), "depth", drawn.names.gather(drawn.slices["name"])
    ).sort(pl.all())
    assert open_training.sql("select ts, dur, depth, name from slice order by 1, 2, 3, 4") == expected.rows()
    parents = dict(
        open_training.sql(
            """select s.category || ' in ' || ifnull(p.category, 'none'), count(*) from slice s left join slice p on s.parent_id = p.id
               where s.category in ('call', 'wait', 'step') group by 1"""
        )
    )
    assert set(parents) == {"call in op", "call in layer", "wait in call", "step in none"}


def test_kernels_lie_on_the_streams_of_their_device_below_their_process(open_training: Opened) -> None:
    rows = open_training.sql(
        """select distinct process.pid, device.name, t.name from slice s
           join process_track t on s.track_id = t.id join process_track device on t.parent_id = device.id join process using (upid)
           where s.category = 'kernel' order by 3"""
    )
    assert rows == [(4242, "NVIDIA H200 [0]", "Stream 13"), (4242, "NVIDIA H200 [0]", "Stream 7")]
    threads = open_training.sql(
        """select distinct tid, thread.name from slice join thread_track t on track_id = t.id join thread using (utid)
           where category = 'call' order by 1"""
    )
    assert threads == [(4242, "main thread"), (4260, "pt_autograd_0")]


def test_a_kernel_says_what_it_is_of(open_training: Opened) -> None:
    rows = open_training.sql(
        """select distinct a.key, a.string_value from slice s join args a using (arg_set_id)
           where s.category = 'kernel' and s.name = 'flash_fwd' and a.key in ('debug.layer', 'debug.op', 'debug.phase', 'debug.stack[0]')
           and extract_arg(s.arg_set_id, 'debug.layer') = 'layers.3.attn' and extract_arg(s.arg_set_id, 'debug.step') = 2 order by 1"""
    )
    assert rows == [
        ("debug.layer", "layers.3.attn"),
        ("debug.op", "aten::_scaled_dot_product_flash_attention"),
        ("debug.phase", "Forward"),
        ("debug.stack[0]", "model.py:32 Attention.forward"),
    ]


def test_counters_have_all_their_points(open_training: Opened, training: Path) -> None:
    drawn = timeline(aiflame.open(training).store)
    expected = drawn.tracks.join(drawn.points, on="track").group_by("name").len().sort("name").rows()
    assert (
        open_training.sql("select t.name, count(*) from counter c join counter_track t on c.track_id = t.id group by 1 order by 1")
        == expected
    )


def test_times_are_those_of_the_system_clock(open_training: Opened, training: Path) -> None:
    started = aiflame.open(training).meta.started
    first = timeline(aiflame.open(training).store).slices["begin_ns"].min()
    assert open_training.sql("select min(ts), to_realtime(min(ts)) from slice") == [
        (first, pytest.approx(started.realtime_ns + first - started.monotonic_ns, abs=1024))
    ]


def test_the_kernel_that_is_selected_shows_its_arrow(open_training: Opened) -> None:
    open_training.wait_until_drawn()
    (kernel,) = open_training.sql("select id from slice where category = 'kernel' and name = 'flash_fwd' limit 1")
    open_training.page.evaluate("(id) => self.app.trace.selection.selectSqlEvent('slice', id)", kernel[0])
    open_training.page.get_by_text("Preceding Flows").wait_for()
    details = open_training.page.locator(".pf-details-shell")
    for detail in ("flash_fwd", "cudaLaunchKernel", "layer", "stack", "registers"):
        details.get_by_text(detail).first.wait_for(state="attached")


@pytest.fixture
def program() -> Any:
    from timelines import Program

    return Program()


def counted(perfetto: Perfetto, profile: OpenedProfile) -> dict[str, int]:
    viewer = perfetto.open(traced(profile.path))
    assert viewer.problems() == []
    return dict(viewer.sql("select category, count(*) from slice group by 1"))


def test_a_replayed_graph_is_one_call_with_many_arrows(perfetto: Perfetto, tmp_path: Path, program: Any) -> None:
    for replay in range(3):
        launch = program.launch(1_000 * replay + 10, 1_000 * replay + 20)
        for node in range(7):
            start = 1_000 * replay + 50 + 20 * node
            program.kernel(launch, start, start + 30, node=node + 1)  # a graph's kernels may overlap
    profile = program.profile(tmp_path)
    viewer = perfetto.open(traced(profile.path))
    arrows = viewer.sql("select o.ts, count(*) from flow join slice o on flow.slice_out = o.id group by 1 order by 1")
    assert arrows == [(1_000 * replay + 10, 7) for replay in range(3)]
    assert viewer.sql("select min(dur), max(dur), max(depth), count(*) from slice where category = 'kernel'") == [(30, 30, 0, 21)]
    assert viewer.problems() == []


def test_hostile_names_are_only_names(perfetto: Perfetto, tmp_path: Path, program: Any) -> None:
    columns = {"thread": 1, "kind": RegionKind.NESTED, "api": RegionApi.NVTX}
    program.rows(
        "regions",
        *({**columns, "name": name, "category": name, "domain": name, "begin_ns": 10 * at + 1} for at, name in enumerate(HOSTILE)),
    )
    program.rows("region_ends", *({"region": at + 1, "thread": 1, "end_ns": 10 * at + 5} for at in range(len(HOSTILE))))
    program.rows("counters", *({"name": name, "thread": 1, "value": 0, "time_ns": 3} for name in HOSTILE))
    for name in HOSTILE:
        program.kernel(program.launch(60, 60), 70, 80, name, device=name)
    profile = program.profile(tmp_path)
    viewer = perfetto.open(traced(profile.path))
    viewer.wait_until_drawn()
    viewer.page.evaluate("self.app.commands.runCommand('dev.perfetto.ExpandAllGroups')")
    viewer.page.wait_for_timeout(500)
    names = {name for (name,) in viewer.sql("select name from slice where category = 'region'")}
    assert names == {HOSTILE[0], "nul\u2400inside", HOSTILE[2], "x" * 4096 + "…", HOSTILE[4]}
    assert viewer.problems() == []
    assert viewer.dialogs == []


def test_a_profile_without_kernels_opens(perfetto: Perfetto, tmp_path: Path, program: Any) -> None:
    stack = program.stack("", "layers.0", "mm")
    program.rows("cpu_samples", *({"thread": 1, "stack": stack, "weight": 1, "period_ns": 10, "time_ns": 10 * at + 10} for at in range(5)))
    assert counted(perfetto, program.profile(tmp_path)) == {"phase": 1, "layer": 1, "op": 1, "function": 7}


def test_an_empty_profile_opens(perfetto: Perfetto, tmp_path: Path, program: Any) -> None:
    assert counted(perfetto, program.profile(tmp_path)) == {}


def test_a_recorded_run_opens(perfetto: Perfetto, tmp_path: Path) -> None:
    try:
        collector()
    except aiflame.AiflameError as error:
        pytest.skip(f"recording is not possible here: {error}")
    path = tmp_path / "run.aiflame"
    record = [sys.executable, "-m", "aiflame.cli.main", "record", "-o", str(path), "--", sys.executable, "-c", STEPS]
    subprocess.run(record, check=True, capture_output=True)
    store = aiflame.open(path).store
    expected = {SliceKind(kind).name.lower(): count for kind, count in timeline(store).slices.group_by("kind").len().rows()}
    assert expected["region"] == 3 and expected["function"] > 0
    assert counted(perfetto, store) == expected
