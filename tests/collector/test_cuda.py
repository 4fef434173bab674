"""Recording CUDA programs, on a fake driver and a fake CUPTI: as strict as the real ones are fragile, they end the program where those
would crash, hang or lose records."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.control import ControlPage
from aiflame.profile.schema import AllocationKind, CopyKind, Feature, FrameKind, GpuSampling, SyncKind

FAKES = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", Path(__file__).parents[2] / "build/dev/tests/collector")) / "fake_cuda"
PROGRAM = Path(__file__).parents[1] / "e2e" / "programs" / "fake_gpu.py"

pytestmark = pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it")


@dataclass(frozen=True, slots=True)
class Recorded:
    outcome: Outcome
    processes: list[Process]

    @property
    def process(self) -> Process:
        (process,) = self.processes
        return process

    @property
    def notes(self) -> list[str]:
        return [text for process in self.processes for text in process.table("notes")["text"]]


Scene = Callable[..., Recorded]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Records a scene of fake_gpu.py; it must end as it does alone."""

    def run(
        name: str,
        *arguments: str,
        features: int = EVERYTHING,
        gpu_sampling: int = GpuSampling.OFF,
        env: Mapping[str, str] | None = None,
    ) -> Recorded:
        profile = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        variables = around() | (env or {})
        command: list[str | Path] = [sys.executable, PROGRAM, name, *arguments]
        outcome = recorded(command, profile, features=features, gpu_sampling=gpu_sampling, env=variables)
        alone = plain(command, tmp_path, env={name: value for name, value in variables.items() if name != "CUDA_INJECTION64_PATH"})
        assert outcome == alone
        return Recorded(outcome, processes(profile))

    return run


def around() -> dict[str, str]:
    """The variables of a machine with CUDA, and ours."""
    return {
        "CUDA_INJECTION64_PATH": str(library().with_name("libaiflame_agent.so")),
        "LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}",
        "FAKE_CUDA_DEVICES": "2",
    }


IN_THE_PROCESS = {"LOADED_FIRST": str(FAKES / "cupti12" / "libcupti.so.12")}


@pytest.mark.parametrize("env", [{}, IN_THE_PROCESS], ids=["found by its name", "in the process already, and older"])
def test_every_launch_has_its_kernel_and_its_stack(scene: Scene, env: dict[str, str]) -> None:
    process = scene("split", env=env).process
    kernels = joined(process, "kernels")
    assert Counter(kernels["launched"]) == {"much": 30, "little": 10}
    assert set(kernels["name"]) == {"spin"}
    assert ((kernels["end_ns"] - kernels["start_ns"]) == 100_000).all()
    assert kernels["thread"].n_unique() == 1


def test_cupti_is_not_newer_than_the_driver(scene: Scene) -> None:
    paths = ":".join(str(FAKES / folder) for folder in ("driver", "cupti13", "cupti12"))
    process = scene("split", env={"FAKE_CUDA_DRIVER": "12080", "LD_LIBRARY_PATH": paths}).process
    assert len(joined(process, "kernels")) == 40
    assert [Path(path).name for path in process.table("modules")["path"] if "cupti" in path] == ["libcupti.so.12"]


def test_kernels_are_on_our_clock(scene: Scene) -> None:
    process = scene("split").process
    kernels, launches = joined(process, "kernels"), process.table("launches")
    assert (kernels["start_ns"] >= process.table("processes")["start_ns"][0]).all()
    assert (launches["begin_ns"] <= launches["end_ns"]).all()
    # Converting between two clocks may be off by a little.
    assert (kernels["start_ns"] + 1_000_000 >= kernels["begin_ns"]).all()
    assert (kernels["start_ns"] < kernels["begin_ns"] + 1_000_000_000).all()


def test_every_way_of_launching_is_known(scene: Scene) -> None:
    kernels = joined(scene("launches").process, "kernels").sort("begin_ns")
    assert kernels["name"].to_list() == ["plain", "extended", "cooperative"]
    assert kernels.select("grid_x", "grid_y", "block_x", "block_y", "dynamic_shared").rows() == [
        (7, 1, 32, 2, 128),
        (5, 1, 64, 1, 0),
        (3, 1, 16, 1, 0),
    ]
    assert kernels.select("registers", "static_shared", "local_bytes").unique().rows() == [(32, 48, 16)]
    assert set(kernels["device"]) == {"Fake GPU [0]"}
    assert set(kernels["launched"]) == {"launches"}


def test_copies_waits_and_memory_are_recorded(scene: Scene) -> None:
    process = scene("copies").process
    copies = joined(process, "copies").sort("begin_ns")
    assert [(CopyKind(kind).name, size) for kind, size in copies.select("kind", "bytes").rows()] == [
        ("HOST_TO_DEVICE", 4096),
        ("HOST_TO_DEVICE", 100),
        ("DEVICE_TO_DEVICE", 200),
        ("PEER", 300),
        ("FILL", 400),
        ("DEVICE_TO_HOST", 500),
    ]
    assert set(copies["launched"]) == {"copies"}
    syncs = joined(process, "syncs").sort("begin_ns")
    assert [SyncKind(kind).name for kind in syncs["kind"]] == ["STREAM", "CONTEXT"]
    assert set(syncs["launched"]) == {"copies", "wait"}
    memory = joined(process, "allocations").sort("begin_ns")
    assert [AllocationKind(kind).name for kind in memory["kind"]] == ["TAKE", "TAKE", "RELEASE"]
    assert memory["address"][0] == memory["address"][2] != memory["address"][1]


def test_memory_is_recorded_on_demand(scene: Scene) -> None:
    process = scene("copies", features=EVERYTHING & ~Feature.GPU_MEMORY).process
    assert process.table("allocations").is_empty()
    assert len(joined(process, "copies")) == 6


def test_a_replayed_kernel_leads_to_the_stack_that_captured_it(scene: Scene) -> None:
    process = scene("graphs").process
    nodes = {row["node"]: row for row in process.table("graph_nodes").iter_rows(named=True)}
    kernels = joined(process, "kernels")
    assert Counter(kernels["name"]) == {"first": 7, "second": 7}
    assert set(kernels["launched"]) == {"replayed_here"}
    captured: Counter[tuple[str, int]] = Counter()
    for node in kernels["node"]:
        steps = 0
        while nodes[node]["original"]:
            node, steps = nodes[node]["original"], steps + 1
        captured[leaf(process, nodes[node]["stack"]), steps] += 1
    # The child of another graph was cloned into it, and again when that was instantiated.
    assert captured == {("captured_here", 1): 10, ("captured_here", 2): 4}


def test_a_captured_launch_did_not_run(scene: Scene) -> None:
    process = scene("graphs").process
    assert joined(process, "kernels").filter(pl.col("launched") == "captured_here").is_empty()


def test_device_code_is_kept(scene: Scene, tmp_path: Path) -> None:
    process = scene("module_gone").process
    (crc,) = process.table("cubins")["crc"]
    (kept,) = tmp_path.glob("*/cubins/*")
    assert kept.name == f"{crc:016x}.cubin"
    assert kept.read_bytes() == b"device code of the fake GPU"
    assert process.table("cubins")["bytes"].to_list() == [len(kept.read_bytes())]


def test_launches_belong_to_their_threads_and_devices(scene: Scene) -> None:
    process = scene("threads").process
    kernels = joined(process, "kernels")
    assert Counter(kernels["name"]) == {f"of_{number}": 50 for number in range(4)}
    assert kernels.select("name", "thread", "stream").unique().height == 4
    assert kernels["thread"].n_unique() == 4
    assert kernels["stream"].n_unique() == 4
    assert dict(kernels.select("name", "device").unique().sort("name").rows()) == {f"of_{n}": f"Fake GPU [{n % 2}]" for n in range(4)}


def test_two_devices_have_their_own_names(scene: Scene) -> None:
    kernels = joined(scene("two_devices").process, "kernels")
    assert Counter(kernels["device"]) == {"Fake GPU [0]": 1, "Fake GPU [1]": 2}


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO, 5])
def test_contexts_may_go_at_any_time(scene: Scene, sampling: int) -> None:
    assert len(joined(scene("contexts", gpu_sampling=sampling).process, "kernels")) == 50
    assert scene("unsynchronized", gpu_sampling=sampling).process.table("launches").height == 10
    assert len(joined(scene("threads", gpu_sampling=sampling).process, "kernels")) == 200


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_nothing_is_lost_when_a_program_leaves_at_once(scene: Scene, sampling: int) -> None:
    ended = scene("leave_at_once", gpu_sampling=sampling)
    assert ended.outcome.status == 3
    assert len(joined(ended.process, "kernels")) == 10


def test_what_was_flushed_survives_a_kill(scene: Scene) -> None:
    killed = scene("killed")
    assert killed.outcome.status == -signal.SIGKILL
    assert len(joined(killed.process, "kernels")) == 10


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_a_program_may_end_while_threads_launch(scene: Scene, sampling: int) -> None:
    process = scene("busy", gpu_sampling=sampling).process
    kernels = process.table("kernels")
    without_launch = kernels.join(process.table("launches"), on="correlation", how="anti")
    assert kernels.height > 100
    assert without_launch.height <= 3, "each thread may be in the middle of its last launch"


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_a_forked_child_records_none_of_its_parents_device_work(scene: Scene, sampling: int) -> None:
    forked = scene("forked", gpu_sampling=sampling)
    assert json.loads(forked.outcome.stdout) == 3, "CUDA does not work in such a child, with us or without"
    parent, child = sorted(forked.processes, key=lambda process: process.table("launches").height, reverse=True)
    assert len(joined(parent, "kernels")) == 40
    assert child.table("launches").is_empty()
    assert child.table("kernels").is_empty()


def test_a_forked_child_may_be_the_first_to_use_cuda(scene: Scene) -> None:
    forked = scene("forked_first")
    assert json.loads(forked.outcome.stdout) == 0
    assert sorted(len(joined(process, "kernels")) for process in forked.processes) == [0, 40]


def test_exec_after_cuda_begins_anew(scene: Scene) -> None:
    before, after = scene("execs").processes
    assert set(joined(before, "kernels")["name"]) == {"before"}
    assert Counter(joined(after, "kernels")["launched"]) == {"much": 30, "little": 10}


def test_recording_goes_on_after_an_exec_that_failed(scene: Scene) -> None:
    assert Counter(joined(scene("fails_to_exec").process, "kernels")["launched"]) == {"little": 10, "much": 30}


def test_a_child_process_is_recorded_beside_its_parent(scene: Scene) -> None:
    found = scene("spawns").processes
    assert [Counter(joined(process, "kernels")["launched"]) for process in found] == [{"much": 30, "little": 10}] * 2


def test_recording_from_inside_may_begin_and_end_again(tmp_path: Path) -> None:
    for process in inside("from_inside", tmp_path / "first", tmp_path / "second"):
        assert Counter(joined(process, "kernels")["launched"]) == {"much": 30}
        (period,) = set(process.table("gpu_windows")["period_log2"])
        assert samples(process).samples == 30 * 1_000_000 >> period, "of a context that was there before"
        assert process.table("gpu_functions")["name"].to_list() == ["spin"]


def test_a_recording_from_inside_steps_aside_for_a_tool_that_is_linked_with_cupti(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL", str(FAKES / "tools" / "libtorch_tool.so"))
    (process,) = inside("from_inside_beside_a_tool", tmp_path / "only")
    assert Counter(joined(process, "kernels")["launched"]) == {"little": 20}


def test_a_recording_from_inside_need_not_be_ended(tmp_path: Path) -> None:
    (process,) = inside("from_inside_without_end", tmp_path / "only")
    assert Counter(joined(process, "kernels")["launched"]) == {"much": 30}


def test_a_recording_from_inside_may_begin_before_cuda_does(tmp_path: Path) -> None:
    assert started_by_itself("from_inside_before_cuda", tmp_path / "profile") == Outcome(0, "", "")
    (process,) = processes(tmp_path / "profile")
    assert Counter(joined(process, "kernels")["launched"]) == {"much": 30, "little": 10}


def inside(name: str, *profiles: Path) -> list[Process]:
    """What a scene that records itself left: one process a profile."""
    for profile in profiles:
        (profile / "spool").mkdir(parents=True)
        ControlPage.create(profile, cpu_rate=999, features=EVERYTHING, gpu_sampling=GpuSampling.AUTO).close()
    assert started_by_itself(name, *profiles) == Outcome(0, "", "")
    return [process for profile in profiles for process in processes(profile)]


def started_by_itself(name: str, *profiles: Path) -> Outcome:
    without_agent = {name: value for name, value in around().items() if name != "CUDA_INJECTION64_PATH"}
    return plain([sys.executable, PROGRAM, name, *profiles], profiles[0].parent, env={**without_agent, "COLLECTOR": str(library())})


def test_a_kernel_that_never_completes_is_a_launch_without_times(scene: Scene) -> None:
    process = scene("never_completes").process
    assert joined(process, "kernels")["name"].to_list() == ["done"]
    assert process.table("launches").height >= 2


def test_a_name_of_ten_thousand_characters_is_kept(scene: Scene) -> None:
    (name,) = joined(scene("long_name").process, "kernels")["name"]
    assert name == "n" * 10_000


def test_dropped_records_are_said(scene: Scene) -> None:
    dropped = scene("split", env={"FAKE_CUPTI_DROP": "4"})  # every fourth
    assert 20 < len(joined(dropped.process, "kernels")) < 40
    (note,) = dropped.notes
    assert "dropped" in note


def test_another_tool_that_has_cupti_is_said(scene: Scene) -> None:
    taken = scene("split", env={"FAKE_CUPTI_TAKEN": "1"})
    assert taken.notes == ["another tool uses CUPTI in this program: GPU kernels are not recorded"]


def test_a_tool_in_our_place_is_said(scene: Scene) -> None:
    taken = scene("split", env={"CUDA_INJECTION64_PATH": "/opt/nsight/libToolsInjection64.so"})
    assert taken.notes == [
        "CUDA loaded /opt/nsight/libToolsInjection64.so in our place (CUDA_INJECTION64_PATH): GPU kernels are not recorded"
    ]


def test_an_old_cupti_is_said(scene: Scene) -> None:
    old = scene("split", env={"FAKE_CUPTI_VERSION": "17"})
    assert old.notes == ["CUPTI is older than CUDA 12.0: GPU kernels are not recorded; mend it with: pip install nvidia-cuda-cupti"]


def test_a_program_that_does_not_start_cuda_loads_no_cupti(scene: Scene) -> None:
    process = scene("no_cuda").process
    assert not [path for path in process.table("modules")["path"] if "cupti" in path]
    assert process.table("notes").is_empty()


TOOLS = {"torch.profiler": FAKES / "tools" / "libtorch_tool.so", "Proton": FAKES / "tools" / "libproton_tool.so"}


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    """Another user of CUPTI: one is linked with it, one looks its functions up."""
    return str(request.param)


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_another_tool_in_the_program_works_and_we_record_the_rest(scene: Scene, tool: str, sampling: int) -> None:
    shared = scene("shared", gpu_sampling=sampling, env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) == [60, 60 if tool == "Proton" else 0], "it saw all that ran in its time"
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 30}
    assert shared.notes == [f"{tool} uses CUPTI: GPU kernels are not recorded until it has finished"]
    kernels = joined(shared.process, "kernels")
    assert (kernels["start_ns"] < kernels["begin_ns"] + 1_000_000_000).all(), "by our clock again"


def test_another_tool_may_be_there_first(scene: Scene, tool: str) -> None:
    shared = scene("shared_from_the_start", env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) == [30, 30 if tool == "Proton" else 0]
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 10}
    assert shared.notes == [f"{tool} uses CUPTI: GPU kernels are not recorded until it has finished"]


def test_another_tool_may_stay_to_the_end(scene: Scene, tool: str) -> None:
    shared = scene("shared_to_the_end", env={"TOOL": str(TOOLS[tool])})
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 10}


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_another_tool_may_come_and_go_while_threads_launch(scene: Scene, tool: str, sampling: int) -> None:
    shared = scene("shared_while_busy", gpu_sampling=sampling, env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) is True
    kernels = shared.process.table("kernels")
    assert kernels.join(shared.process.table("launches"), on="correlation").height > 0.9 * kernels.height > 0


def test_another_tool_may_come_in_the_middle_of_a_call(scene: Scene, tool: str) -> None:
    shared = scene("shared_in_the_middle_of_a_call", env={"TOOL": str(TOOLS[tool])})
    assert Counter(joined(shared.process, "kernels")["launched"])["little"] == 10


@dataclass(frozen=True)
class Sampled:
    reasons: dict[str, int]
    offsets: dict[int, int]
    samples: int
    dropped: int
    foreign: int


@pytest.mark.parametrize("version", ["130001", "18"])
def test_samples_are_counted_by_instruction_and_reason(scene: Scene, version: str) -> None:
    process = scene("split", gpu_sampling=6, env={"FAKE_CUPTI_VERSION": version}).process
    sampled = samples(process)
    # 40 kernels of 100 µs at 1 GHz, looked at every 64 cycles; half of the ten places that the samples go round wait for memory.
    assert sampled.samples == 40 * 100_000 // 64
    assert sum(sampled.reasons.values()) == sampled.samples
    assert sampled.reasons["smsp__pcsamp_warps_issue_stalled_long_scoreboard"] == sampled.samples // 2
    assert sampled.reasons["smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued"] == sampled.samples // 10
    assert sampled.offsets[0x10] == sampled.samples * 6 // 10
    (function,) = process.table("gpu_functions").select("name", "cubin").rows()
    assert function == ("spin", process.table("cubins")["crc"][0])
    assert set(process.table("gpu_windows")["device"]) == {"Fake GPU [0]"}
    assert set(process.table("gpu_windows")["period_log2"]) == {6}


def test_dropped_and_foreign_samples_are_counted(scene: Scene) -> None:
    process = scene("split", gpu_sampling=6, env={"FAKE_CUPTI_DROPPED_SAMPLES": "3", "FAKE_CUPTI_FOREIGN_SAMPLES": "5"}).process
    sampled = samples(process)
    assert (sampled.dropped, sampled.foreign) == (120, 200)


def test_without_permission_everything_but_samples_is_recorded(scene: Scene) -> None:
    denied = scene("split", gpu_sampling=GpuSampling.AUTO, env={"FAKE_CUPTI_DENIED": "1"})
    assert len(joined(denied.process, "kernels")) == 40
    assert denied.process.table("gpu_samples").is_empty()
    (note,) = denied.notes
    assert "NVreg_RestrictProfilingToAdminUsers=0" in note


@pytest.mark.parametrize("stays", ["0", "1"])
def test_a_full_hardware_buffer_is_said_and_survived(scene: Scene, stays: str) -> None:
    full = scene("split", gpu_sampling=5, env={"FAKE_CUPTI_HARDWARE_SAMPLES": "4000", "FAKE_CUPTI_STAYS_FULL": stays})
    assert len(joined(full.process, "kernels")) == 40
    (note,) = full.notes
    assert "sampling buffer" in note


def joined(process: Process, table: str) -> pl.DataFrame:
    """Rows of a table with the launch that each belongs to, and `launched`: the Python function that made it."""
    launches = process.table("launches").filter(pl.col("api") == 2)
    assert launches["correlation"].is_unique().all()
    rows = process.table(table)
    if table == "kernels":
        rows = rows.join(process.table("kernel_shapes"), left_on="shape", right_on="id", suffix="_shape")
    found = rows.join(launches, on="correlation", how="inner", suffix="_launch")
    assert len(found) == len(rows), "every row has its launch"
    names = {stack: leaf(process, stack, skip=("launch", "call")) for stack in set(found["stack"])}
    return found.with_columns(pl.col("stack").replace_strict(names, return_dtype=pl.String).alias("launched"))


def leaf(process: Process, stack: int, skip: tuple[str, ...] = ("launch", "call")) -> str:
    """The innermost Python function of the program's own, without those of Gpu."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    codes = dict(process.table("codes").select("id", "qualname").iter_rows())
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.PYTHON:
            name = str(codes[frame >> 32 & 0xFFFFFFF]).split(".")[-1]
            if name not in skip:
                return name
    return ""


def samples(process: Process) -> Sampled:
    rows = process.table("gpu_samples").join(process.table("stall_reasons"), left_on="reason", right_on="id", suffix="_reason")
    windows = process.table("gpu_windows")
    assert (windows["begin_ns"] < windows["end_ns"]).all()
    reasons: Counter[str] = Counter()
    offsets: Counter[int] = Counter()
    for name, offset, count in rows.select("name", "offset", "count").iter_rows():
        reasons[name] += count
        offsets[offset] += count
    total, dropped, foreign = sum(reasons.values()), int(windows["dropped"].sum()), int(windows["foreign"].sum())
    assert windows["samples"].sum() == total + dropped + foreign
    return Sampled(dict(reasons), dict(offsets), total, dropped, foreign)
