"""aiflame's own timelines, written and read again: equal in everything that the format carries."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from exported_profiles import META, figures, training
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from timelines import Program

import aiflame
from aiflame.attribute.timeline.runtime_names import NAMES
from aiflame.attribute.timeline.tables import SliceKind, Timeline
from aiflame.attribute.timeline.whole import timeline
from aiflame.exchange.readers.formats import format_of
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.perfetto import own
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.enums import CallBackend, CallKind, CopyKind, RegionKind
from aiflame.profile.tables.interface import Tables
from aiflame.render.perfetto import trace as perfetto

SAME = (
    *(SliceKind.CALL, SliceKind.WAIT, SliceKind.KERNEL, SliceKind.COPY, SliceKind.REGION, SliceKind.MARK),
    *(SliceKind.FUNCTION, SliceKind.TRACED, SliceKind.STEP),
)
_Rows = list[tuple[object, ...]]


def read_again(profile: Tables, folder: Path) -> Tables:
    folder.mkdir(exist_ok=True)
    file = folder / "timeline.pftrace"
    with file.open("wb") as out:
        perfetto.write_profile(profile, META.started, out)
    source = Source.open(file)
    of = format_of(source.head)
    assert of is not None and of.name == "Perfetto"
    making = Making(Folder.new(folder / "again"))
    of.read(source, making, lambda share: None)
    making.finish(of.name, (file.name,), "0")
    return aiflame.open(folder / "again").store


def drawn(of: Timeline, *kinds: SliceKind) -> dict[str, _Rows]:
    """Slices by kind: process, thread, name, begin (from the first of all) and length."""
    tracks = of.tracks.select("track", "process", "thread")
    rows = of.slices.with_columns(name=of.names.gather(of.slices["name"])).join(tracks, on="track", how="left")
    rows = rows.filter(pl.col("kind").is_in([int(kind) for kind in kinds]))
    first = rows["begin_ns"].min()
    rows = (
        rows.select("kind", "process", "name", pl.col("begin_ns") - first, took=pl.col("end_ns") - pl.col("begin_ns"))
        .unique()
        .sort(pl.all())
    )
    return {
        SliceKind(kind).name: [row[1:] for row in part.iter_rows()] for (kind,), part in rows.partition_by("kind", as_dict=True).items()
    }


def facts_by_kernel(of: Timeline) -> set[tuple[object, ...]]:
    """The facts of kernels and copies, without those about the call."""
    kept = of.facts.filter(pl.col("key").is_in(["grid", "block", "registers", "static_shared", "dynamic_shared", "bytes", "full_name"]))
    rows = of.slices.filter(pl.col("kind").is_in([int(SliceKind.KERNEL), int(SliceKind.COPY)]))
    rows = rows.with_columns(name=of.names.gather(rows["name"])).join(kept, left_on="facts", right_on="set", how="inner")
    return set(rows.select("name", "key", "text", "number").rows())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Tables]:
    folder = tmp_path_factory.mktemp("own")
    profile = training(folder)
    return profile, read_again(profile, folder)


def test_what_ran_when_is_what_the_timeline_says(both: tuple[Tables, Tables]) -> None:
    before, after = (drawn(timeline(one), *SAME) for one in both)
    steps = {f"ProfilerStep#{number}" for number in range(4)}
    named = [row for row in after["REGION"] if row[1] in steps]
    assert {row[1] for row in named} == steps, "steps are kept by their names"
    after["REGION"] = [row for row in after["REGION"] if row[1] not in steps]
    assert after == before
    assert {name: len(rows) for name, rows in after.items()}.items() >= {"KERNEL": 12, "COPY": 4, "CALL": 16, "REGION": 4}.items()


def test_figures_of_kernels_and_copies_are_equal(both: tuple[Tables, Tables]) -> None:
    before, after = both
    assert figures(before, "gpu-time", "kernel", "step") == figures(after, "gpu-time", "kernel", "step")
    assert figures(before, "bytes", "kernel") == figures(after, "bytes", "kernel")
    assert facts_by_kernel(timeline(before)) == facts_by_kernel(timeline(after))


def test_every_kernel_has_the_call_that_launched_it(both: tuple[Tables, Tables]) -> None:
    profile = both[1]
    launches = profile.table("launches").select("process", "correlation", "begin_ns")
    kernels = profile.table("kernels").join(launches, on=["process", "correlation"])
    assert len(kernels) == 12
    assert (kernels["start_ns"] >= kernels["begin_ns"]).all()


def test_samples_have_the_time_of_the_functions_that_the_timeline_shows(both: tuple[Tables, Tables]) -> None:
    before, after = both
    shown: dict[str, int] = {}
    rows = [
        (str(name), int(str(begin)), int(str(took))) for _, name, begin, took in drawn(timeline(before), SliceKind.FUNCTION)["FUNCTION"]
    ]
    for row in rows:
        name, begin, took = row
        inside = [other for other in rows if other != row and begin <= other[1] and other[1] + other[2] <= begin + took]
        shown[name] = shown.get(name, 0) + took - sum(other[2] for other in inside)
    listed = figures(after, "wall-time", "function")["function"]
    assert {name: own for name, (own, *_) in listed.items()} == shown  # type: ignore[attr-defined]
    assert after.table("cpu_samples")["clock"].unique().to_list() == [1], "the samples of this program are by the clock"


def test_calls_regions_and_marks_keep_what_they_are(tmp_path: Path) -> None:
    program = Program()
    program.kernel(program.launch(1000, 1010, "layers.0", "mm"), 2000, 3000)
    program.rows(
        "regions",
        *(
            {"thread": 1, "api": 1, "kind": int(kind), "domain": "mine", "category": "c", "name": name, "begin_ns": begin}
            for kind, name, begin in ((RegionKind.NESTED, "outer", 100), (RegionKind.FREE, "free", 150), (RegionKind.MARK, "mark", 170))
        ),
    )
    program.rows("region_ends", *({"region": row, "thread": 1, "end_ns": end} for row, end in ((1, 900), (2, 1200))))
    program.rows("call_names", {"backend": int(CallBackend.MPI), "name": "MPI_Send"}, {"backend": int(CallBackend.HIP), "name": "hipInit"})
    program.rows(
        "calls",
        *(
            {"thread": thread, "name": name, "kind": int(CallKind.BLOCKING), "peer": 0xFFFFFFFF, "begin_ns": begin, "end_ns": end}
            for thread, name, begin, end in ((1, 1, 300, 340), (2, 1, 300, 350), (2, 2, 400, 410))
        ),
    )
    profile = program.profile(tmp_path)
    again = read_again(profile, tmp_path)
    assert drawn(timeline(again), *SAME) == drawn(timeline(profile), *SAME)
    assert again.table("regions").sort("begin_ns").select("kind", "domain", "category", "name").rows() == [
        (1, "mine", "c", "outer"),
        (2, "mine", "c", "free"),
        (3, "mine", "c", "mark"),
    ]
    names = again.table("call_names").select("process", "id", "backend", called="name")
    assert again.table("cpu_samples").is_empty(), "the timeline has no samples"
    calls = again.table("calls").join(names, left_on=["process", "name"], right_on=["process", "id"])
    threads = again.table("threads").select("process", "id", "tid")
    calls = calls.join(threads, left_on=["process", "thread"], right_on=["process", "id"])
    assert sorted(calls.select("tid", "backend", "called").rows()) == [(1000, 3, "MPI_Send"), (1001, 3, "MPI_Send"), (1001, 8, "hipInit")]


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.integers(0, 300), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1 << 40)), max_size=12
    ),
    st.lists(st.tuples(st.sampled_from(list(CopyKind)), st.integers(1, 1 << 30), st.integers(0, 400)), max_size=5),
)
@settings(
    max_examples=10,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_program_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, kernels: list[tuple[int, int, int, int, int]], copies: list[tuple[CopyKind, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    program, now = Program(), 1000
    for took, later, place, many, pause in kernels:
        launch = program.launch(now, now + took, *(("layers.0", "mm"), ("add",), (), ("layers.0.attn", "relu"))[place])
        for number in range(many):
            begin = now + later + 700 * number
            program.kernel(launch, begin, begin + took, f"kernel_{place}<{number}>", stream=7 + number, device=f"GPU [{place % 2}]")
        now += took + pause
    for kind, size, took in copies:
        launch = program.launch(now, now + 5)
        moved = {"kind": int(kind), "bytes": size, "device": "GPU [0]", "stream": 3, "api": 2, "correlation": launch}
        program.rows("copies", {**moved, "start_ns": now, "end_ns": now + took})
        now += took + 10
    profile = program.profile(folder)
    again = read_again(profile, folder)
    lines = [timeline(one) for one in (profile, again)]
    before, after = (drawn(one, SliceKind.CALL, SliceKind.KERNEL, SliceKind.COPY) for one in lines)
    assert after == before
    before_facts, after_facts = map(facts_by_kernel, lines)
    assert after_facts == before_facts
    assert figures(again, "gpu-time", "kernel") == figures(profile, "gpu-time", "kernel")


def test_calls_of_every_runtime_come_back_as_its_calls() -> None:
    assert {name: backend for backend, name in NAMES.items()} == own._RUNTIMES
