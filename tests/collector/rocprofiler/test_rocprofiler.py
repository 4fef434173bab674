"""AMD's GPUs by rocprofiler-sdk: launches, kernels, copies and samples of known work, on a strict stand-in for the vendor's library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature, GpuSampling
from aiflame.profile.schema.enums import CopyKind, GpuApi, SyncKind
from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
INLINED, OWN, CALLED = 0x1954, 0x1930, 0x1828
"""Of scale.cl: line 2 in line 12 of the kernel; its line 13; line 2 in line 6 of `slow_part`, which the kernel calls."""
SCALE, SLOW_PART = 0x1900, 0x180C
FEATURES = EVERYTHING & ~Feature.MEANING
SAMPLING = {"ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "on"}


@dataclass(frozen=True, slots=True)
class Run:
    outcome: Outcome
    process: Process
    profile: Path

    def table(self, name: str) -> pl.DataFrame:
        return self.process.table(name)

    def notes(self) -> list[str]:
        return [note for note in self.table("notes")["text"].to_list() if "AMD" in note]


def command() -> list[str | Path]:
    return [built("programs/rocm_client"), CODE, f"{INLINED:#x},{OWN:#x},{CALLED:#x}"]


def run_that_ends(folder: Path, end: str) -> tuple[Outcome, list[Process]]:
    profile = folder / "p"
    variables = {"FAKE_ROCM": "stochastic", "ENDS": end, **SAMPLING}
    outcome = recorded(command(), profile, features=FEATURES, gpu_sampling=GpuSampling.AUTO, env=variables)
    return outcome, processes(profile)


def run(folder: Path, fake: str, *, sampling: int = GpuSampling.AUTO, features: int = FEATURES, env: dict[str, str] | None = None) -> Run:
    profile = folder / "p"
    variables = {"FAKE_ROCM": fake, **(SAMPLING if env is None else env)}
    outcome = recorded(command(), profile, features=features, gpu_sampling=sampling, env=variables)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (process,) = processes(profile)
    return Run(outcome, process, profile)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("rocm"), "stochastic,host_trap")


def test_the_program_is_not_changed(scene: Run, tmp_path: Path):
    alone = plain(command(), tmp_path, {"FAKE_ROCM": "stochastic", **SAMPLING})
    assert alone == scene.outcome


def test_each_call_that_gives_a_device_work_is_a_launch(scene: Run):
    launches = scene.table("launches")
    assert set(launches["api"]) == {GpuApi.HIP}
    assert len(launches) == 1 + 5 + 1, "the copy, the kernels, the wait; not hipGetDevice"
    assert (launches["stack"] > 0).all() and (launches["end_ns"] >= launches["begin_ns"]).all()
    assert launches["correlation"].n_unique() == 7


def test_kernels_have_their_launch_shape_and_time_on_our_clock(scene: Run):
    named = ("name", "device", "grid_x", "block_x", "registers", "static_shared", "dynamic_shared")
    shapes = scene.table("kernel_shapes").select(*named, shape="id")
    kernels = scene.table("kernels").join(shapes, on="shape").sort("correlation")
    rows = kernels.select("name", "grid_x", "block_x").rows()
    assert rows == [("scale", 4, 64)] * 4 + [("sum", 1, 32)]
    assert (kernels["end_ns"] - kernels["start_ns"]).to_list() == [100_000] * 3 + [3_000_000, 50_000]
    assert set(kernels["device"]) == {"AMD Instinct MI300X [0]"}
    assert set(kernels.select("registers", "static_shared", "dynamic_shared").rows()) == {(32, 1024, 1024)}
    began = scene.table("launches").select("correlation", "begin_ns", launched_ns="end_ns")
    joined = kernels.join(began, on="correlation")
    assert len(joined) == 5
    between = (joined["start_ns"] >= joined["begin_ns"] - 100_000) & (joined["start_ns"] <= joined["launched_ns"] + 100_000)
    assert between.all(), "two clocks are read one after the other"


def test_copies_and_waits(scene: Run):
    launches = scene.table("launches")["correlation"]
    (copy,) = scene.table("copies").rows(named=True)
    assert (copy["kind"], copy["bytes"], copy["device"]) == (CopyKind.HOST_TO_DEVICE, 4096, "AMD Instinct MI300X [0]")
    (wait,) = scene.table("syncs").rows(named=True)
    assert wait["kind"] == SyncKind.CONTEXT
    assert {copy["correlation"], wait["correlation"]} < set(launches)


def test_samples_belong_to_the_launch_that_they_name(scene: Run):
    windows = scene.table("gpu_windows").select("samples", "dropped", "foreign", "period_log2", correlation="launched_by")
    scale = windows.join(scene.table("kernels").sort("start_ns").head(4).select("correlation"), on="correlation")
    assert scale.group_by("correlation").agg(pl.col("samples").sum())["samples"].to_list() == [100] * 4
    assert set(windows["period_log2"]) == {20}
    lost = windows.filter(correlation=0)
    assert (lost["dropped"].sum(), lost["foreign"].sum(), lost["samples"].sum()) == (7, 1, 8), "INVALID records, and a sample of nothing"
    nowhere = windows.filter(pl.col("foreign") > 0, pl.col("correlation") > 0)
    assert nowhere["foreign"].sum() == 5, "code of no code object"


def test_samples_are_at_offsets_in_functions_of_the_code_object(scene: Run):
    functions = scene.table("gpu_functions").select("cubin", function="id", name="name")
    reasons = scene.table("stall_reasons").select(reason="id", why="name")
    samples = scene.table("gpu_samples").join(functions, on="function").join(reasons, on="reason")
    summed = samples.group_by("name", "offset", "why").agg(pl.col("count").sum()).sort("name", "offset").rows()
    assert summed == [
        ("scale", OWN - SCALE, "selected", 120),
        ("scale", INLINED - SCALE, "waitcnt", 240),
        ("slow_part", CALLED - SLOW_PART, "alu_dependency", 40),
    ]
    (cubin,) = set(samples["cubin"])
    kept = scene.profile / f"cubins/{cubin:016x}.cubin"
    assert kept.read_bytes() == CODE.read_bytes()
    assert scene.table("cubins").select("crc", "bytes").rows() == [(cubin, CODE.stat().st_size)]


def test_the_devices_address_is_known(scene: Run):
    assert scene.table("gpu_devices").select("device", "address").rows() == [("AMD Instinct MI300X [0]", "0000:C1:03.0")]


def test_host_traps_have_no_reasons(tmp_path: Path):
    trapped = run(tmp_path, "host_trap")
    assert trapped.table("gpu_samples")["count"].sum() == 400
    assert set(trapped.table("stall_reasons")["name"]) == {"host_trap"}
    assert set(trapped.table("gpu_windows")["period_log2"]) == {0}


def test_another_processs_period_is_taken(tmp_path: Path):
    busy = run(tmp_path, "stochastic,busy")
    assert set(busy.table("gpu_windows")["period_log2"]) == {18}
    assert busy.notes() == []


def test_the_users_period_is_taken(tmp_path: Path):
    assert set(run(tmp_path, "stochastic", sampling=16).table("gpu_windows")["period_log2"]) == {16}


@pytest.mark.parametrize(
    ("fake", "env", "says"),
    [
        ("stochastic", {}, "ROCPROFILER_PC_SAMPLING_BETA_ENABLED=on"),
        ("stochastic,old_kernel", SAMPLING, "driver is too old"),
        ("", SAMPLING, "cannot be sampled"),
    ],
)
def test_where_stalls_are_not_sampled_kernels_are_there_and_a_note(tmp_path: Path, fake: str, env: dict[str, str], says: str):
    unsampled = run(tmp_path, fake, env=env)
    assert len(unsampled.table("kernels")) == 5
    assert unsampled.table("gpu_windows").is_empty()
    (note,) = unsampled.notes()
    assert says in note


def test_without_sampling_nothing_is_asked(tmp_path: Path):
    unsampled = run(tmp_path, "stochastic", sampling=GpuSampling.OFF)
    assert len(unsampled.table("kernels")) == 5
    assert (unsampled.table("gpu_windows").is_empty(), unsampled.notes()) == (True, [])


def test_a_release_with_another_layout_is_left_alone(tmp_path: Path):
    old = run(tmp_path, "stochastic,old")
    assert old.table("kernels").is_empty()
    assert "older than ROCm 7.0" in old.notes()[0]


def test_without_the_feature_rocprofiler_gets_no_tool(tmp_path: Path):
    off = run(tmp_path, "stochastic", features=FEATURES & ~Feature.ROCM)
    assert off.table("kernels").is_empty() and off.notes() == []


@pytest.mark.parametrize(("end", "status"), [("kill", -9), ("_exit", 0)])
def test_completed_kernels_are_there_however_the_program_ends(tmp_path: Path, end: str, status: int):
    outcome, (process,) = run_that_ends(tmp_path, end)
    assert outcome.status == status
    assert len(process.table("kernels")) == 5
    assert len(process.table("launches")) == 7


def test_the_child_of_a_fork_leaves_rocprofiler_alone(tmp_path: Path):
    """Its threads are not there: a call that waits for one would never return."""
    outcome, (parent, child) = run_that_ends(tmp_path, "fork")
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    assert parent.table("gpu_samples")["count"].sum() == 400
    assert child.table("launches").is_empty() and child.table("gpu_windows").is_empty()


def without_sdk(folder: Path, **env: str) -> tuple[Outcome, list[str]]:
    profile = folder / "p"
    outcome = recorded([built("programs/rocm_without_sdk")], profile, features=FEATURES, env=env)
    (process,) = processes(profile)
    return outcome, [note for note in process.table("notes")["text"].to_list() if "AMD" in note]


def test_a_runtime_without_the_sdk_is_not_led_to_a_tool(tmp_path: Path):
    """AMD's runtime ends the program where it finds a tool and no SDK."""
    outcome, (note,) = without_sdk(tmp_path)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "without the SDK\n", "")
    assert "there is no rocprofiler-sdk" in note


def test_an_sdk_that_the_runtime_finds_by_its_name_is_used(tmp_path: Path):
    outcome, notes = without_sdk(tmp_path, LD_LIBRARY_PATH=str(built("programs/rocm")))
    assert (outcome.status, outcome.stdout, notes) == (0, "with the SDK\n", [])
