"""Records of CUDA programs, on a fake driver and a fake CUPTI: as strict as the real ones are fragile, they end the program
where those would crash, hang or lose records."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from cuda_scenes import FAKES, Scene, files_of, joined, leaf, needs_fakes, samples
from live import EVERYTHING

from aiflame.profile.schema.control_schema import Feature, GpuSampling
from aiflame.profile.schema.enums import AllocationKind, CopyKind, MemoryKind, SyncKind

pytestmark = needs_fakes


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


def is_whole(files: list[str]) -> bool:
    """Whether rules alone have led through a stack, from the function of the driver's that was called."""
    inner, *outer = files
    between = ("libcuda.", "libcupti.", "libaiflame", "[")
    return inner == "libcuda.so.1" and not any(file.startswith(between) or file.endswith("?") for file in outer)


def test_stacks_begin_in_the_function_of_the_driver_that_was_called(scene: Scene) -> None:
    process = scene("ways_out").process
    kernels = joined(process, "kernels")
    assert len(kernels) == 3 * 100
    (stack,) = set(kernels["stack"])
    files = files_of(process, stack)
    assert is_whole(files), files
    assert "libffi" in files[1] or "_ctypes" in files[1]
    assert leaf(process, stack) == "ways_out"


def test_stacks_of_nodes_and_calls_begin_there_too(scene: Scene) -> None:
    graphs = scene("graphs").process
    nodes = [row for row in graphs.table("graph_nodes")["stack"] if row]
    calls = scene("calls", features=EVERYTHING | Feature.TRACE_CUDA | Feature.TRACE_STACKS).process
    for process, stacks in ((graphs, nodes), (calls, calls.table("calls")["stack"])):
        assert len(stacks) > 3
        for stack in set(stacks):
            assert is_whole(files_of(process, stack)), files_of(process, stack)


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
    assert set(joined(process, "syncs")["launched"]) == {"copies", "wait"}
    memory = joined(process, "allocations").sort("begin_ns")
    device, pinned = MemoryKind.DEVICE, MemoryKind.HOST
    assert [AllocationKind(kind).name for kind in memory["kind"]] == ["TAKE", "TAKE", "RELEASE", "TAKE", "RELEASE"]
    assert memory["memory"].to_list() == [device, device, device, pinned, pinned]
    assert memory["address"][0] == memory["address"][2] != memory["address"][1]


def test_every_wait_is_one_row(scene: Scene) -> None:
    process = scene("waits").process
    waits, kernels = joined(process, "syncs").sort("begin_ns"), joined(process, "kernels").sort("begin_ns")
    once = ["STREAM", "EVENT", "CONTEXT"]
    assert [SyncKind(kind).name for kind in waits["kind"]] == [*once, *once, "STREAM", "STREAM", "STREAM"]
    assert (waits["start_ns"] <= waits["end_ns"]).all()
    assert ((waits["begin_ns"] <= waits["start_ns"]) & (waits["end_ns"] <= waits["end_ns_launch"])).all()
    # Each of the first six waited for a kernel to its end; converting between two clocks may be off by a little.
    assert (waits["end_ns"][:6] + 1_000_000 >= kernels["end_ns"]).all()
    one, _, default, other, _, _ = kernels["stream"]
    assert waits["stream"].to_list() == [one, 0, 0, other, 0, 0, default, default + 1, default]


def test_memory_is_recorded_on_demand(scene: Scene) -> None:
    process = scene("copies", features=EVERYTHING & ~Feature.GPU_MEMORY).process
    assert process.table("allocations").is_empty()
    assert len(joined(process, "copies")) == 6


def test_a_replayed_kernel_leads_to_the_stack_that_captured_it(scene: Scene) -> None:
    process = scene("graphs").process
    # A node of an instantiated graph has two rows: CUPTI reports its creation, and then the node that it was cloned from.
    rows = process.table("graph_nodes").sort("original")
    assert rows["node"].is_duplicated().any(), "or it shows nothing"
    nodes = {row["node"]: row for row in rows.iter_rows(named=True)}
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


def test_each_device_has_its_address(scene: Scene) -> None:
    """The driver numbers the devices that a program may see: their PCI address shows which of the machine's devices they are."""
    process = scene("two_devices").process
    assert set(process.table("gpu_devices").select("device", "address").rows()) == {
        ("Fake GPU [0]", "0000:1B:00.0"),
        ("Fake GPU [1]", "0000:1C:00.0"),
    }


def test_a_kernel_that_never_completes_is_a_launch_without_times(scene: Scene) -> None:
    process = scene("never_completes").process
    assert joined(process, "kernels")["name"].to_list() == ["done"]
    assert process.table("launches").height >= 2


def test_a_name_of_ten_thousand_characters_is_kept(scene: Scene) -> None:
    (name,) = joined(scene("long_name").process, "kernels")["name"]
    assert name == "n" * 10_000


def test_dropped_records_are_noted(scene: Scene) -> None:
    dropped = scene("split", env={"FAKE_CUPTI_DROP": "4"})  # every fourth
    assert 20 < len(joined(dropped.process, "kernels")) < 40
    (note,) = dropped.notes
    assert "dropped" in note


def test_an_old_cupti_is_noted(scene: Scene) -> None:
    old = scene("split", env={"FAKE_CUPTI_VERSION": "17"})
    assert old.notes == ["CUPTI is older than CUDA 12.0: GPU kernels are not recorded; mend it with: pip install nvidia-cuda-cupti"]


def test_a_program_that_does_not_start_cuda_loads_no_cupti(scene: Scene) -> None:
    process = scene("no_cuda").process
    assert not [path for path in process.table("modules")["path"] if "cupti" in path]
    assert process.table("notes").is_empty()


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
def test_a_full_hardware_buffer_is_noted_and_survived(scene: Scene, stays: str) -> None:
    full = scene("split", gpu_sampling=5, env={"FAKE_CUPTI_HARDWARE_SAMPLES": "4000", "FAKE_CUPTI_STAYS_FULL": stays})
    assert len(joined(full.process, "kernels")) == 40
    (note,) = full.notes
    assert "sampling buffer" in note


def test_where_no_activity_can_be_recorded_others_find_cupti_free(scene: Scene) -> None:
    refused = scene("subscribes", env={"FAKE_CUPTI_REFUSES": "1"})
    assert json.loads(refused.outcome.stdout) == 0
    assert any("recording device activity failed" in note for note in refused.notes)
