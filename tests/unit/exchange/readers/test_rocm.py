"""Files of ROCm's profilers as profiles: the same run in each format has the same answers."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import rocm_files as made

import aiflame
from aiflame.exchange.readers.door import imported
from aiflame.exchange.readers.making import FIRST_NS
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi, RegionKind, SyncKind

TRACES = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"))
REAL_JSON = sorted((TRACES / "rocprofv3").glob("*_results.json.gz"))
REAL_RPD = sorted([*(TRACES / "rocprofv3").glob("*.rpd"), *(TRACES / "rpd").glob("*.rpd")])
BEGAN = 50
WRITERS = (made.write_json, made.write_csv, made.write_rocpd)
EACH = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
Writer = Callable[[Path], Path]


@EACH
def test_a_run_has_the_same_answers_in_each_format(write: Writer, tmp_path: Path) -> None:
    profile = aiflame.open(write(tmp_path))
    assert profile.table("processes")["pid"].to_list() == [made.PID]
    assert made.TID in profile.table("threads")["tid"].to_list()

    shape = profile.table("kernel_shapes").row(0, named=True)
    assert (shape["name"], shape["device"], shape["api"]) == ("_Z4addffPf", "AMD Instinct MI300X [0]", GpuApi.HIP)
    assert [shape[f"grid_{axis}"] for axis in "xyz"] == [16, 2, 1], "workgroups: the files count work items"
    assert [shape[f"block_{axis}"] for axis in "xyz"] == list(made.BLOCK)
    assert (shape["registers"], shape["static_shared"], shape["local_bytes"]) == (24, 512, 16)

    frames = {row: (name, module) for row, name, module in profile.table("named_frames").select("id", "name", "module").iter_rows()}
    parents = {
        row: (parent, frame & 0xFFFFFFFF) for row, parent, frame in profile.table("stacks").select("id", "parent", "frame").iter_rows()
    }
    kernels = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"]).sort("start_ns")
    assert kernels.select("start_ns", "end_ns").rows() == [
        (FIRST_NS + begin - BEGAN, FIRST_NS + end - BEGAN) for begin, end, _ in made.KERNELS
    ]
    for stack in kernels["stack"].to_list():
        above, frame = parents[stack]
        assert frames[frame] == ("hipLaunchKernel", "HIP")
        assert frames[parents[above][1]] == ("train", "[roctx]")

    copy = profile.table("copies").row(0, named=True)
    assert (copy["kind"], copy["bytes"]) == (CopyKind.HOST_TO_DEVICE, 0 if write is made.write_csv else made.COPY[3])
    assert copy["device"] == "AMD Instinct MI300X [0]"
    assert profile.table("launches").filter(pl.col("correlation") == copy["correlation"]).height == 1
    region = profile.table("regions").row(0, named=True)
    assert (region["name"], region["domain"], region["kind"]) == ("train", "roctx", RegionKind.NESTED)
    assert set(profile.table("call_names")["backend"]) == {CallBackend.HIP}
    assert profile.table("syncs").select("kind", "api").rows() == [(SyncKind.CONTEXT, GpuApi.HIP)]
    wall_time = profile.table("cpu_samples").filter(pl.col("clock") == 1)["period_ns"].sum()
    assert wall_time == 950 - 50


@EACH
def test_views_work_on_it(write: Writer, tmp_path: Path) -> None:
    profile = aiflame.open(write(tmp_path))
    names = profile.tree("gpu-time").frames["name"].to_list()
    assert "train" in names
    assert "hipLaunchKernel" in names


def test_a_folder_of_csv_files_is_a_run_of_several_processes(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    made.write_csv(folder)
    made.write_csv(folder, prefix="x_")
    for file in folder.glob("x_*.csv"):
        file.write_text(file.read_text().replace(str(made.PID), "99").replace(str(made.TID), "99"))
    profile = aiflame.open(folder)
    assert sorted(profile.table("processes")["pid"]) == [99, made.PID]
    linked = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"])
    assert linked.group_by("process").len()["len"].to_list() == [2, 2]


def test_a_changed_sister_is_read_again(tmp_path: Path) -> None:
    file = made.write_csv(tmp_path)
    assert imported(file).has_file("tables", "launches", "00000.parquet")
    (tmp_path / f"{made.PID}_hip_api_trace.csv").unlink()
    assert not imported(file).has_file("tables", "launches", "00000.parquet")


def test_counters_without_a_trace_still_have_their_kernels(tmp_path: Path) -> None:
    head = '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",'
    head += '"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","SGPR_Count","Counter_Name","Counter_Value",'
    head += '"Start_Timestamp","End_Timestamp","Kind"\n'
    rows = "".join(f'1,{of},"Agent 1",1,7,7,256,1,"k",64,0,0,8,16,"{name}",5.0,{of}00,{of}50,"X"\n' for of in (1, 2) for name in ("A", "B"))
    file = tmp_path / "counter_collection.csv"
    file.write_text(head + rows)
    profile = aiflame.open(file)
    assert profile.table("kernels").height == 2
    assert profile.table("kernel_shapes")["grid_x"].to_list() == [4]
    assert profile.meta.imported is not None
    assert profile.meta.imported.unused["values of counters"] == 4


@pytest.mark.parametrize(
    "text", [b"{" * 100_000, b'{"rocprofiler-sdk-tool": [' + b"[" * 100_000, b'{"rocprofiler-sdk-tool": [{"agents": 7}, 5, null]}']
)
def test_nesting_without_end_is_damage(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text if b"rocprofiler" in text else b'{"rocprofiler-sdk-tool": [{"strings": ' + text)
    assert "damaged" in " ".join(aiflame.open(file).meta.degraded)


@pytest.mark.parametrize("file", REAL_JSON, ids=lambda file: file.name)
def test_kernels_of_a_real_json_file_have_their_time(file: Path) -> None:
    with gzip.open(file) as content:
        process = json.load(content)["rocprofiler-sdk-tool"][0]
    names = {symbol["kernel_id"]: symbol["kernel_name"].removesuffix(".kd") for symbol in process["kernel_symbols"]}
    wanted: Counter[str] = Counter()
    for record in process["buffer_records"]["kernel_dispatch"]:
        wanted[names[record["dispatch_info"]["kernel_id"]]] += record["end_timestamp"] - record["start_timestamp"]
    assert _times(aiflame.open(file)) == wanted


@pytest.mark.parametrize("file", REAL_RPD, ids=lambda file: file.name)
def test_a_real_rpd_file_has_its_own_sums(file: Path) -> None:
    profile = aiflame.open(file)
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    query = "SELECT {} FROM rocpd_op o JOIN rocpd_string d ON d.id = o.description_id"
    query += " JOIN rocpd_string t ON t.id = o.opType_id WHERE t.string {}"
    named = query.format("CASE d.string WHEN '' THEN t.string ELSE d.string END, sum(o.end - o.start)", "= 'KernelExecution' GROUP BY 1")
    assert _times(profile) == dict(connection.execute(named).fetchall())
    copies = connection.execute(query.format("count(*)", "!= 'KernelExecution'")).fetchone()[0]
    assert profile.table("copies").height == copies
    linked = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"], how="semi").height
    pairs = "SELECT count(*) FROM rocpd_api_ops a JOIN rocpd_op o ON o.id = a.op_id"
    pairs += " JOIN rocpd_string t ON t.id = o.opType_id WHERE t.string = 'KernelExecution'"
    assert linked == connection.execute(pairs).fetchone()[0]
    assert (
        profile.table("calls").height + profile.table("regions").height
        <= connection.execute("SELECT count(*) FROM rocpd_api").fetchone()[0]
    )


def test_calls_of_hsa_are_no_calls_of_hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doorbell = ("HSA_CORE_API", "hsa_signal_store_screlease", 110, 140, 5)
    monkeypatch.setattr(made, "CALLS", (*made.CALLS, doorbell))
    names = aiflame.open(made.write_csv(tmp_path)).table("call_names")
    assert names.filter(backend=int(CallBackend.HSA))["name"].to_list() == [doorbell[1]]
    assert set(names["backend"]) == {CallBackend.HIP, CallBackend.HSA}


def _times(profile: aiflame.Profile) -> dict[str, int]:
    rows = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
    return dict(rows.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum()).rows())
