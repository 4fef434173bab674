"""Calls of HSA by rocprofiler-sdk, and the launches that work belongs to.

Work carries the number of the innermost call that anybody listens to: one of HSA where those are traced, not of the call of HIP whose stack
was recorded. programs/fake_rocprofiler.hpp describes the stand-in."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Process, processes, recorded
from recording import recorder, time_under

from aiflame.profile.schema.control_schema import Feature, GpuSampling
from aiflame.profile.schema.enums import CallBackend
from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
ADDRESSES = "0x1954,0x1930,0x1828"
FEATURES = EVERYTHING & ~Feature.TRACE_STACKS & ~Feature.MEANING


def run(folder: Path, fake: str, features: int, program: str = "rocm_client") -> Process:
    env = {"FAKE_ROCM": f"stochastic,{fake}", "ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "on"}
    command: list[str | Path] = [built(f"programs/{program}"), CODE, ADDRESSES]
    outcome = recorded(command, folder / "p", features=features, gpu_sampling=GpuSampling.AUTO, env=env)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (process,) = processes(folder / "p")
    return process


def calls(process: Process) -> pl.DataFrame:
    """Those of HSA, with `function` for `name`, in their order."""
    functions = process.table("call_names").filter(pl.col("backend") == int(CallBackend.HSA)).select(name="id", function="name")
    return process.table("calls").join(functions, on="name").sort("begin_ns")


def launched(process: Process) -> dict[str, list[tuple[int, ...]]]:
    """Of each kind of work: which launch it belongs to, counted from the program's first, and its size."""
    launches = process.table("launches").sort("begin_ns").with_row_index("launch").select("launch", "correlation", on="stack")
    assert (launches["on"] > 0).all()
    kernels = process.table("kernels").select("correlation", size=pl.col("end_ns") - pl.col("start_ns"))
    copies = process.table("copies").select("correlation", size="bytes")
    windows = process.table("gpu_windows").filter(pl.col("launched_by") > 0)
    windows = windows.group_by(correlation="launched_by").agg(size=pl.col("samples").sum())
    work = {"kernels": kernels, "copies": copies, "samples": windows.filter(pl.col("size") > 1)}
    return {kind: sorted(rows.join(launches, on="correlation", how="left").select("launch", "size").rows()) for kind, rows in work.items()}


BY_CONSTRUCTION = {
    "copies": [(0, 4096)],
    "kernels": [(1, 100_000), (2, 100_000), (3, 100_000), (4, 3_000_000), (5, 50_000)],
    "samples": [(1, 100), (2, 100), (3, 100), (4, 100), (5, 5)],
}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Process:
    return run(tmp_path_factory.mktemp("traced"), "", FEATURES)


def test_work_belongs_to_the_launch_of_hip_where_hsa_is_traced(traced: Process) -> None:
    assert len(traced.table("launches")) == 7
    assert launched(traced) == BY_CONSTRUCTION


@pytest.mark.parametrize(
    ("fake", "features"),
    [
        pytest.param("", FEATURES & ~Feature.TRACE_HSA, id="nobody traces HSA"),
        pytest.param("beside", FEATURES, id="work is seen after the call of HSA"),
        pytest.param("hsa_heard", FEATURES & ~Feature.TRACE_HSA, id="another tool traces HSA"),
        pytest.param("no_request", FEATURES, id="an SDK that does not ask for numbers"),
    ],
)
def test_and_to_the_same_launches_otherwise(tmp_path: Path, fake: str, features: int) -> None:
    assert launched(run(tmp_path, fake, features)) == BY_CONSTRUCTION


def test_calls_of_hips_runtime_lie_within_those_of_hip(traced: Process) -> None:
    of_hsa = calls(traced)
    assert of_hsa["function"].to_list() == [
        "hsa_amd_memory_async_copy",
        *["hsa_queue_add_write_index_screlease", "hsa_signal_store_screlease"] * 5,
        "hsa_signal_wait_scacquire",
    ]
    assert of_hsa["bytes"].to_list() == [4096] + [0] * 11
    around = traced.table("launches").select(since="begin_ns", until="end_ns")
    within = of_hsa.join_where(around, pl.col("begin_ns") >= pl.col("since"), pl.col("end_ns") <= pl.col("until"))
    assert len(within) == len(of_hsa)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Process:
    return run(tmp_path_factory.mktemp("alone"), "", FEATURES | Feature.TRACE_STACKS, "rocm_hsa")


def test_results_failures_and_bytes(alone: Process) -> None:
    """The end of an iteration is no failure, a value of a signal no status. Calls within a call have no row, nor have looks at a signal."""
    of_hsa = calls(alone)
    assert of_hsa.select("function", "result", "failed", "bytes").rows() == [
        ("hsa_init", 0, 0, 0),
        ("hsa_iterate_agents", 1, 0, 0),
        ("hsa_agent_get_info", 0, 0, 0),
        ("hsa_memory_allocate", 0x1008, 1, 0),
        ("hsa_memory_copy", 0, 0, 64),
        ("hsa_memory_copy", 0, 0, 32),
        ("hsa_memory_copy", 0x1001, 1, 0),
        ("hsa_amd_memory_fill", 0, 0, 20),
        *[("hsa_queue_add_write_index_screlease", 0, 0, 0), ("hsa_signal_store_screlease", 0, 0, 0)] * 4,
        ("hsa_signal_wait_scacquire", 0, 0, 0),
    ]
    assert (of_hsa["stack"] > 0).all() and (of_hsa["end_ns"] >= of_hsa["begin_ns"]).all()


@pytest.mark.parametrize("features", [FEATURES, FEATURES & ~Feature.TRACE_HSA], ids=["traced", "not traced"])
def test_kernels_that_no_call_of_hip_launched_have_a_launch(tmp_path: Path, features: int) -> None:
    """Those that were given to the device at once have one number, and one launch, where the call has a number."""
    process = run(tmp_path, "", features, "rocm_hsa")
    kernels, launches = process.table("kernels"), process.table("launches")
    assert len(kernels) == 5 and (launches["stack"] > 0).all()
    assert len(kernels.join(launches, on="correlation")) == 5, "each has one"


def test_and_stand_under_the_functions_that_gave_them_to_the_device(tmp_path: Path) -> None:
    once = recorder(tmp_path)(built("programs/rocm_hsa"), CODE)
    assert (once.status, once.stdout) == (0, "0 violations\n"), once.stderr
    tree = once.profile().tree("gpu-time")
    assert [time_under(tree, "main", caller, "scale", metric="gpu-time") for caller in ("left", "right")] == [300_000, 900_000]
    assert not [name for name in tree.frames["name"].to_list() if "rocprofiler" in name or "aiflame" in name]


def test_an_sdk_that_does_not_ask_for_numbers_is_not_asked_for_calls(tmp_path: Path) -> None:
    process = run(tmp_path, "no_request", FEATURES)
    assert calls(process).is_empty()
    (note,) = [note for note in process.table("notes")["text"].to_list() if "HSA" in note]
    assert note == "AMD: calls of HSA cannot be traced by this rocprofiler-sdk"


def test_calls_that_nobody_asked_for_are_not_there(tmp_path: Path) -> None:
    assert calls(run(tmp_path, "", FEATURES & ~Feature.TRACE_HSA)).is_empty()
