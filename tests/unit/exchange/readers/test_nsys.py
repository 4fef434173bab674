"""Reports of nsys as profiles: made ones with answers known by construction, and real ones beside a reckoning in SQL."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nsys_files as made
import numpy as np
import polars as pl
import pytest

import aiflame
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import import_to, imported
from aiflame.exchange.readers.making import FIRST_NS
from aiflame.exchange.readers.nsys import arrow_stream
from aiflame.profile.schema.enums import CopyKind, GpuApi, PayloadType, RegionKind, SyncKind

REAL = sorted(Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "nsys").glob("*.sqlite"))
MANY = 200
BEGAN = 500
"""The earliest event of the made report; in the profile that is the moment FIRST_NS."""


def at(moment: int) -> int:
    return FIRST_NS + moment - BEGAN


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write(tmp_path_factory.mktemp("made") / "report.sqlite")


@pytest.fixture(scope="module")
def report(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[aiflame.Profile]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("home")))
        yield aiflame.open(file)


def stacks(profile: aiflame.Profile) -> dict[tuple[int, int], str]:
    """Names of frames of each stack, outermost first."""
    names = {(process, row): name for process, row, name in profile.table("named_frames").select("process", "id", "name").iter_rows()}
    texts: dict[tuple[int, int], str] = {}
    for process, row, parent, frame in profile.table("stacks").sort("process", "id").select("process", "id", "parent", "frame").iter_rows():
        above = texts.get((process, parent), "")
        texts[process, row] = (above + ";" if above else "") + names[process, frame & 0xFFFFFFFF]
    return texts


def of_pid(profile: aiflame.Profile, pid: int) -> int:
    return int(profile.table("processes").filter(pl.col("pid") == pid)["process"][0])


def test_kernels_belong_to_calls_of_their_own_process(report: aiflame.Profile) -> None:
    own, other = of_pid(report, made.PID), of_pid(report, made.OTHER)
    joined = report.table("kernels").join(report.table("launches"), on=["process", "correlation"])
    text = stacks(report)
    launched = {
        (process, start): text[process, stack] for process, start, stack in joined.select("process", "start_ns", "stack").iter_rows()
    }
    assert launched == {
        (own, at(3_000)): "step;registered;aten::mm;cudaLaunchKernel",
        (other, at(3_500)): "cudaLaunchKernel",
        (own, at(7_200)): "cudaGraphLaunch",
    }
    assert any(note.startswith("3 of 7 kernels and copies of the trace have no call") for note in report.meta.degraded)


def test_a_kernel_has_its_shape_and_device(report: aiflame.Profile) -> None:
    shape = report.table("kernel_shapes").row(0, named=True)
    assert shape["name"] == "_Z4gemmPf"
    assert shape["device"] == "NVIDIA H100 [0]"
    assert shape["api"] == GpuApi.CUDA
    assert [shape[name] for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")] == [8, 2, 1, 128, 1, 1]
    assert [shape[name] for name in ("registers", "static_shared", "dynamic_shared", "local_bytes")] == [32, 1024, 512, 16]
    assert report.table("gpu_devices").select("device", "address").rows()[0] == ("NVIDIA H100 [0]", "0000:1B:00.0")


def test_copies_and_waits(report: aiflame.Profile) -> None:
    copies = report.table("copies").sort("start_ns").select("kind", "bytes").rows()
    assert copies == [(CopyKind.HOST_TO_DEVICE, 4096), (CopyKind.DEVICE_TO_DEVICE, 10), (CopyKind.FILL, 64)]
    waits = report.table("syncs").select("kind", "start_ns", "end_ns", "stream").rows()
    assert waits == [(SyncKind.STREAM, at(5_010), at(5_890), 7)]
    assert report.meta.imported is not None
    assert report.meta.imported.unused["streams that waited for events"] == 1


def test_calls_have_names_without_versions_and_results(report: aiflame.Profile) -> None:
    names = report.table("call_names").rename({"name": "text"})
    rows = report.table("calls").join(names, left_on=["process", "name"], right_on=["process", "id"])
    assert Counter(rows["text"]) == {
        "cudaLaunchKernel": 2, "cudaStreamSynchronize": 1, "cudaMemcpyAsync": 1, "cudaGraphLaunch": 1, "cudaGraphAddKernelNode": 1,
    }  # fmt: skip
    assert rows.filter(pl.col("failed") > 0)["text"].to_list() == ["cudaMemcpyAsync"]


def test_ranges_are_regions_and_ops_are_none(report: aiflame.Profile) -> None:
    rows = {row["name"]: row for row in report.table("regions").iter_rows(named=True)}
    assert set(rows) == {"step", "registered", "fetch", "now", "open"}
    assert {name: row["kind"] for name, row in rows.items()} == {
        "step": RegionKind.NESTED, "registered": RegionKind.NESTED,
        "fetch": RegionKind.FREE, "now": RegionKind.MARK, "open": RegionKind.NESTED,
    }  # fmt: skip
    assert (rows["registered"]["domain"], rows["registered"]["category"]) == ("library", "io")
    assert (rows["registered"]["payload_type"], rows["registered"]["payload"]) == (PayloadType.UNSIGNED, 12)
    assert (rows["now"]["payload_type"], rows["now"]["payload"]) == (PayloadType.SIGNED, 2**64 - 3)
    assert rows["fetch"]["payload_type"] == PayloadType.FLOAT
    assert np.array([rows["fetch"]["payload"]], np.uint64).view(np.float64)[0] == 0.5
    assert rows["step"]["color"] == 0xFF00FF00
    ends = dict(report.table("region_ends").select("region", "end_ns").rows())
    assert ends[rows["step"]["id"]] == at(6_000)
    assert rows["open"]["id"] not in ends


def test_time_of_threads_is_what_calls_and_ranges_cover(report: aiflame.Profile) -> None:
    samples = report.table("cpu_samples").filter(pl.col("clock") == 1)
    text = stacks(report)
    own: Counter[str] = Counter()
    for process, stack, period in samples.select("process", "stack", "period_ns").iter_rows():
        own[text[process, stack]] += period
    assert own["step"] == (900 - 500) + (6_000 - 2_600) - 900, "its own, without the range and the call in it"
    assert own["step;registered;aten::mm"] == (1_500 - 950) - 200
    assert own["step;cudaStreamSynchronize"] == 900
    assert own["main;work();poll"] == 400, "a call with a stack of its own hangs below that"
    waiting = samples.filter(pl.col("state") == 1)
    assert {text[pair] for pair in waiting.select("process", "stack").iter_rows()} == {"step;cudaStreamSynchronize", "main;work();poll"}


def test_samples_of_cpus_are_cpu_time(report: aiflame.Profile) -> None:
    samples = report.table("cpu_samples").filter(pl.col("clock") == 0).sort("time_ns")
    text = stacks(report)
    rows = [
        (text[process, stack], period, cpu)
        for process, stack, period, cpu in samples.select("process", "stack", "period_ns", "cpu").iter_rows()
    ]
    assert rows == [("main;work()", 1_000_000, 3), ("main;work();add", 1_000_000, 3)]


def test_a_rate_that_is_not_known_is_estimated_and_said(tmp_path: Path) -> None:
    profile = aiflame.open(made.write(tmp_path / "r.sqlite", {"META_DATA_CAPTURE": []}))
    assert set(profile.table("cpu_samples").filter(pl.col("clock") == 0)["period_ns"]) == {100}
    assert any("does not say how often nsys sampled CPUs" in note for note in profile.meta.degraded)


def test_nodes_of_graphs_know_the_call_that_made_them(report: aiflame.Profile) -> None:
    nodes = {row["node"]: row for row in report.table("graph_nodes").iter_rows(named=True)}
    assert stacks(report)[nodes[30]["process"], nodes[30]["stack"]] == "cudaGraphAddKernelNode"
    assert (nodes[33]["original"], nodes[33]["stack"]) == (30, 0)
    assert report.table("kernels").filter(pl.col("node") == 33).height == 1


def test_metrics_of_gpus_are_measurements_of_the_machine(report: aiflame.Profile) -> None:
    series = report.table("telemetry_series").row(0, named=True)
    assert (series["source"], series["device"], series["name"], series["unit"]) == ("nvidia", "NVIDIA H100 [0]", "SMs Active", "%")
    values = report.table("telemetry").sort("time_ns", "value").select("time_ns", "value").rows()
    # A value describes the time before its moment; here it stands at the begin of that time.
    assert values == [(at(1_000), 10.0), (at(1_000), 70.0), (at(2_000), 30.0)]


def test_what_the_report_says_about_itself(report: aiflame.Profile) -> None:
    assert report.meta.command == ("python", "-u", "x.py")
    assert report.meta.started.realtime_ns == 1_700_000_000_000_000_000 + BEGAN
    assert "nsys: events were lost" in report.meta.degraded
    assert not any("well" in note for note in report.meta.degraded)
    assert report.meta.imported is not None
    assert report.meta.imported.format == "nsys SQLite"
    assert report.meta.imported.unused["rows of SCHED_EVENTS"] == 3
    assert report.table("threads").filter(pl.col("tid") == made.TID)["name"].to_list() == ["trainer"]


def test_variables_of_the_environment_stay_in_the_report(tmp_path: Path) -> None:
    aiflame.open(made.write(tmp_path / "report.sqlite"))
    assert not any(b"secret" in file.read_bytes() for file in Path(os.environ["XDG_CACHE_HOME"]).rglob("*") if file.is_file())


@pytest.mark.parametrize("table", [name for name in made.ROWS if name != "StringIds"])
def test_a_table_that_is_absent_is_empty(table: str, tmp_path: Path) -> None:
    assert imported(made.write(tmp_path / "r.sqlite", without=(table,))).has_file("meta.json")


def test_another_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    with pytest.raises(AiflameError, match="neither of nsys nor of ROCm"):
        aiflame.open(tmp_path / "other.sqlite")


TABLES = ("kernels", "launches", "copies", "syncs", "calls", "regions", "cpu_samples", "threads", "stacks", "telemetry")


def test_a_file_of_arrow_streams_says_the_same(report: aiflame.Profile, file: Path, tmp_path: Path) -> None:
    exported = made.write_arrow(file, tmp_path / "report.arrow")
    data = exported.read_bytes()
    other = aiflame.open(exported)
    assert other.meta.imported is not None and other.meta.imported.format == "nsys Arrow"
    for table in TABLES:
        assert other.table(table).equals(report.table(table)), table
    assert other.meta.imported.unused == report.meta.imported.unused if report.meta.imported else False
    for cut in (len(data) - 3, len(data) // 2):
        exported.write_bytes(data[:cut])
        with pytest.raises(AiflameError, match=r"cut short|damaged|cannot read"):
            aiflame.open(exported)


def test_other_arrow_streams_are_refused_with_the_exports_that_are_read(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_ipc_stream(tmp_path / "other.arrow")
    with pytest.raises(AiflameError, match="nsys export -t sqlite` or `-t parquetdir"):
        aiflame.open(tmp_path / "other.arrow")


def test_arrow_streams_with_more_rows_than_memory_holds_are_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their numbers are in the streams' descriptions: no row is decoded for it."""
    monkeypatch.setattr(arrow_stream, "_MOST_ROWS", 20)
    monkeypatch.setattr(pl, "read_ipc_stream", None)
    with pytest.raises(AiflameError, match="more than 20 rows: export the report as SQLite or Parquet"):
        import_to(made.write_arrow(file, tmp_path / "report.arrow"), tmp_path / "made")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_folder_of_tables_says_the_same(suffix: str, report: aiflame.Profile, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    folder.mkdir()
    for table, frame in made.frames(file).items():
        if suffix == "parquet":
            frame.write_parquet(folder / f"{table}.parquet")
        else:
            frame.write_ipc(folder / f"{table}.arrow")
    other = aiflame.open(folder)
    for table in TABLES:
        assert other.table(table).equals(report.table(table)), table
    (folder / f"CUPTI_ACTIVITY_KIND_KERNEL.{suffix}").write_bytes(b"PAR1" + os.urandom(200) + b"PAR1")
    with pytest.raises(AiflameError, match="cannot read"):
        aiflame.open(folder)


@pytest.mark.parametrize("strings_in_one", [False, True])
def test_lines_of_json_say_the_same(strings_in_one: bool, tmp_path: Path) -> None:
    others = {name for name in made.ROWS if name not in made.IN_LINES}
    payloads = [(*row[:3], *row[3:11], *(None,) * (len(row) - 11)) for row in made.ROWS["NVTX_EVENTS"]]
    first = made.write(tmp_path / "r.sqlite", {**{name: [] for name in others}, "NVTX_EVENTS": payloads})
    lines = made.write_lines(first, tmp_path / "r.jsonl", strings_in_one)
    of_tables, of_lines = aiflame.open(first), aiflame.open(lines)
    for table in (
        "kernels",
        "copies",
        "launches",
        "stacks",
        "named_frames",
        "regions",
        "region_ends",
        "calls",
        "syncs",
        "cpu_samples",
        "threads",
    ):
        assert of_lines.table(table).equals(of_tables.table(table)), table
    assert len(of_lines.table("kernels")) == 4
    shape = "name", "grid_x", "block_x", "registers", "static_shared"
    assert of_lines.table("kernel_shapes").select(shape).equals(of_tables.table("kernel_shapes").select(shape))
    assert of_lines.meta.imported is not None
    assert of_lines.meta.imported.unused["events of kind CompositeEvent"] == 1


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    whole = made.write_lines(made.write(tmp_path / "r.sqlite"), tmp_path / "r.jsonl", False).read_bytes()
    file = tmp_path / "cut.jsonl"
    file.write_bytes(whole.replace(b'"returnValue": 0', b'"returnValue": "--5"')[:-20])
    assert "1 lines of the report are no JSON" in " ".join(aiflame.open(file).meta.degraded)


def test_rows_without_sense_are_left_out_and_counted(tmp_path: Path) -> None:
    huge = 2**63 - 1
    rows = [
        made.kernel(3_000, 4_000, 1),
        made.kernel(huge, huge, 1),
        made.kernel(-huge, 5, 1),
        made.kernel(4_000, 3_000, -5, node=-1, stream=-2),
    ]
    rows.append(("text", b"blob", 1.5, *made.kernel(0, 0, 0)[3:]))
    profile = aiflame.open(made.write(tmp_path / "r.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": rows}))
    assert profile.table("kernels").height == 3, "a text is the number 0; an end before its begin is no time"
    assert any(note.startswith("2 rows of the trace have no time, or an absurd one") for note in profile.meta.degraded)


@pytest.mark.parametrize("real", REAL, ids=lambda file: file.name)
def test_a_real_report_has_its_own_sums(real: Path) -> None:
    profile = aiflame.open(real)
    connection = sqlite3.connect(f"file:{real}?mode=ro", uri=True)
    columns = {
        name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        for (name,) in connection.execute("SELECT name FROM sqlite_master")
    }
    kernels, calls = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
    if kernels in columns:
        name = "coalesce(mangledName, demangledName)" if "mangledName" in columns[kernels] else "demangledName"
        wanted = dict(
            connection.execute(f"SELECT value, sum(end - start) FROM {kernels} JOIN StringIds ON id = {name} GROUP BY value").fetchall()
        )
        rows = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
        assert dict(rows.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum()).rows()) == wanted
        same = "AND c.globalTid >> 24 = k.globalPid >> 24" if "globalPid" in columns[kernels] else ""
        query = f"SELECT count(*) FROM {kernels} k WHERE EXISTS (SELECT 1 FROM {calls} c WHERE c.correlationId = k.correlationId {same})"
        linked = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"], how="semi").height
        assert linked == connection.execute(query).fetchone()[0]
    for table, fills in (("CUPTI_ACTIVITY_KIND_MEMCPY", False), ("CUPTI_ACTIVITY_KIND_MEMSET", True)):
        if table in columns:
            copies = profile.table("copies").filter((pl.col("kind") == int(CopyKind.FILL)) == fills)
            wanted_copies = connection.execute(
                f"SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(end - start), 0) FROM {table}"
            ).fetchone()
            assert (copies.height, int(copies["bytes"].sum()), int((copies["end_ns"] - copies["start_ns"]).sum())) == wanted_copies
    assert _wall(profile) == _covered(connection, columns)
    if "COMPOSITE_EVENTS" in columns:
        samples = profile.table("cpu_samples").filter(pl.col("clock") == 0).height
        assert samples == connection.execute("SELECT count(*) FROM COMPOSITE_EVENTS").fetchone()[0]


def _wall(profile: aiflame.Profile) -> int:
    rows = profile.table("cpu_samples").filter(pl.col("clock") == 1)
    return int((rows["period_ns"].cast(pl.Int64) * rows["weight"]).sum())


def _covered(connection: sqlite3.Connection, columns: dict[str, set[str]]) -> int:
    """The time of each thread that its calls and ranges cover."""
    threads: dict[int, list[tuple[int, int]]] = {}
    for table, which in (("CUPTI_ACTIVITY_KIND_RUNTIME", "1"), ("OSRT_API", "1"), ("NVTX_EVENTS", "eventType = 59")):
        if table in columns:
            for owner, start, end in connection.execute(f"SELECT globalTid, start, end FROM {table} WHERE {which} AND end NOTNULL"):
                threads.setdefault(owner, []).append((start, end))
    covered = 0
    for spans in threads.values():
        until = -(2**63)
        for start, end in sorted(spans):
            covered += max(0, end - max(start, until))
            until = max(until, end)
    return covered
