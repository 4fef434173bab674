"""The profile has a program's ITT regions: through Intel's own client, called as its macros call it, and its Python package."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import RegionApi, RegionKind

CLIENT = Path(__file__).parent / "programs" / "itt_client.py"
WITHOUT_MEANING = EVERYTHING & ~Feature.MEANING
NESTED, FREE, MARK, FRAME = (int(kind) for kind in (RegionKind.NESTED, RegionKind.FREE, RegionKind.MARK, RegionKind.FRAME))


def vendors() -> Path:
    """Intel's client, linked into an extension module of its Python package."""
    package = importlib.util.find_spec("ittapi")
    if package is None or not package.submodule_search_locations:
        pytest.skip("no ittapi here: `make test` installs it")
    return next(Path(package.submodule_search_locations[0]).glob("native.*.so"))


def around() -> dict[str, str]:
    return {"INTEL_LIBITTNOTIFY64": str(library().with_name("libaiflame_agent.so"))}


@pytest.fixture
def scene(tmp_path: Path) -> Callable[..., Process]:
    def run(
        name: str, status: int = 0, features: int = WITHOUT_MEANING, env: dict[str, str] | None = None, client: Path | None = None
    ) -> Process:
        command: list[str | Path] = [sys.executable, CLIENT, client or vendors(), name]
        assert recorded(command, tmp_path / "p", features=features, env=around() | (env or {})) == Outcome(status, "", "")
        (process,) = processes(tmp_path / "p")
        return process

    return run


def regions(process: Process) -> pl.DataFrame:
    ends = process.table("region_ends").select(id="region", ender="thread", end_ns="end_ns")
    assert ends["id"].is_unique().all()
    return process.table("regions").join(ends, on="id", how="left", maintain_order="left")


def test_tasks_nest_in_their_domain_with_handles_of_before_and_after(scene: Callable[..., Process]) -> None:
    process = scene("tasks")
    marked = regions(process)
    assert marked.select("api", "kind", "domain", "name").rows() == [
        (int(RegionApi.ITT), NESTED, "made before", "named before"),
        (int(RegionApi.ITT), NESTED, "D", "with an id"),
        (int(RegionApi.ITT), NESTED, "D", "by ex"),
    ]
    assert marked.sort("end_ns")["name"].to_list() == ["by ex", "named before", "with an id"]
    assert process.table("notes")["text"].to_list() == ["ITT: a task was ended where none was open: such ends are passed over"]


def test_overlapped_tasks_and_regions_are_distinguished_by_their_ids(scene: Callable[..., Process]) -> None:
    marked = regions(scene("overlapped"))
    assert marked.select("kind", "name").rows() == [(FREE, "a"), (FREE, "b"), (FREE, "region"), (FREE, "a again")]
    assert marked.drop_nulls("end_ns").sort("end_ns")["name"].to_list() == ["a", "b", "region"]
    assert (marked["ender"] != marked["thread"]).to_list() == [False, True, False, None]


def test_metadata_belongs_to_the_innermost_task_or_to_the_one_with_its_id(scene: Callable[..., Process]) -> None:
    process = scene("metadata")
    of = dict(regions(process).select("id", "name").rows())
    data = [(of[region], value) for region, value in process.table("region_data").select("region", "value").rows()]
    assert [value for name, value in data[:4] if name == "inner"] == ["18446744073709551615", "[-1, 5]", "0.1", "[0.1, 1e+300, null, 2]"]
    assert data[4][0] == "inner" and data[4][1].startswith("text\n")
    assert data[5:] == [("inner", "ends at its 0"), ("inner", "by id"), ("outer", "3")]
    assert set(process.table("region_data")["key"]) == {"key"}


def test_frames_marks_and_events(scene: Callable[..., Process]) -> None:
    process = scene("frames")
    marked = regions(process)
    frames = marked.filter(pl.col("kind") == FRAME)
    assert frames.select("domain", "name").unique().rows() == [("frames", "frames")]
    assert frames["end_ns"].is_null().to_list() == [False, False, True, False, False]
    assert (frames.drop_nulls("end_ns")["end_ns"] >= frames.drop_nulls("end_ns")["begin_ns"]).all()
    marks = marked.filter(pl.col("kind") == MARK)
    assert marks.select("domain", "name").rows() == [("frames", "marker"), ("", "mark")]
    assert process.table("region_data").select("region", "key", "value").rows() == [(marks["id"][1], "parameter", "parameter")]
    events = marked.filter(pl.col("kind") == NESTED)
    assert events.sort("end_ns")["name"].to_list() == ["event 1", "event 2"]
    assert process.table("notes")["text"].to_list() == [
        "ITT: a frame was submitted whose times come from another clock than ours: such frames are passed over",
        "ITT: a task was ended where none was open: such ends are passed over",
    ]


def test_counters_have_the_value_after_each_change(scene: Callable[..., Process]) -> None:
    rows = scene("counters").table("counters").select("domain", "name", "value").rows()
    assert [(domain, name, struct.unpack("<d", struct.pack("<Q", value))[0]) for domain, name, value in rows] == [
        ("C", "plain", 1),
        ("C", "plain", 11),
        ("C", "plain", 10),
        ("C", "real", -2.5),
        ("D", "named", 4),
        ("D", "named", 9),
    ]


@pytest.mark.parametrize(
    "env, domains", [({}, ["mine"]), ({"AIFLAME_ITT": "all"}, ["oneDNN::primitive::execute", "dnnl::primitive::execute", "mine"])]
)
def test_regions_of_runtimes_for_their_vendors_tools_are_left_out_by_default(
    scene: Callable[..., Process], env: dict[str, str], domains: list[str]
) -> None:
    assert regions(scene("quiet", env=env))["domain"].to_list() == domains


@pytest.mark.parametrize("env, count", [({}, 0), ({"AIFLAME_ITT": "all"}, 2)])
def test_so_it_is_when_such_a_mark_is_the_first_of_all(scene: Callable[..., Process], env: dict[str, str], count: int) -> None:
    marked = regions(scene("quiet_first", env=env))
    assert (len(marked), marked["end_ns"].null_count()) == (count, 0)


@pytest.mark.parametrize("env, count", [({}, 0), ({"AIFLAME_ITT": "all"}, 3)])
def test_a_runtime_of_openmp_is_left_alone_unless_asked_for(
    scene: Callable[..., Process], tmp_path: Path, env: dict[str, str], count: int
) -> None:
    runtime = tmp_path / "libiomp5.so"
    shutil.copy(vendors(), runtime)
    assert len(regions(scene("tasks", env=env, client=runtime))) == count


def test_a_pause_takes_no_samples_and_says_so(scene: Callable[..., Process]) -> None:
    process = scene("paused")
    (pause,) = regions(process).iter_rows(named=True)
    assert (pause["kind"], pause["name"]) == (FRAME, "[paused]")
    samples = process.table("cpu_samples")
    before, after = (
        samples.filter(one)["weight"].sum() for one in (pl.col("time_ns") < pause["begin_ns"], pl.col("time_ns") > pause["end_ns"])
    )
    inside = samples.filter(pl.col("time_ns").is_between(pause["begin_ns"], pause["end_ns"], closed="none"))
    assert len(inside) <= 1  # one may have been under way
    assert before > 20 and after > 20


def test_regions_begun_before_a_kill_are_kept(scene: Callable[..., Process]) -> None:
    marked = regions(scene("killed", status=-9))
    assert marked.select("name", "end_ns").rows() == [("under way", None)]


def test_a_hundred_thousand_tasks(scene: Callable[..., Process]) -> None:
    process = scene("many")
    assert len(process.table("regions")) == len(process.table("region_ends")) == 100_000


def test_without_the_feature_no_region_is_recorded(scene: Callable[..., Process]) -> None:
    process = scene("tasks", features=WITHOUT_MEANING & ~Feature.ITT)
    assert process.table("regions").is_empty() and process.table("notes").is_empty()


def test_without_a_collector_the_agent_leaves_the_program_alone(tmp_path: Path) -> None:
    assert plain([sys.executable, CLIENT, vendors(), "tasks"], tmp_path, env=around()) == Outcome(0, "", "")


def test_the_python_package(tmp_path: Path) -> None:
    vendors()
    program = """
import ittapi
with ittapi.task("task", domain="D"):
    pass
over = ittapi.task("overlapped", domain="D", overlapped=True)
over.begin(); over.end()
with ittapi.event("event"):
    pass
ittapi.pause(); ittapi.resume()
"""
    assert recorded([sys.executable, "-c", program], tmp_path / "p", features=WITHOUT_MEANING, env=around()) == Outcome(0, "", "")
    (process,) = processes(tmp_path / "p")
    marked = regions(process)
    assert marked.select("domain", "name", "kind").rows() == [
        ("D", "task", NESTED),
        ("D", "overlapped", FREE),
        ("", "event", NESTED),
        ("", "[paused]", FRAME),
    ]
    assert marked["end_ns"].null_count() == 0
