"""Calls of Level Zero and the work of its devices, traced beneath the stock loader: a driver for tests, whose device is a thread."""

from __future__ import annotations

import ctypes.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from layered import kernels_by_layers, program
from live import EVERYTHING, Outcome, Process, build, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi
from aiflame.resolve.device.zebin import Zebin

PROGRAMS = Path(__file__).parent / "programs"
INTEL = Path(__file__).parents[2] / "unit/data/intel"
FEATURES = EVERYTHING & ~Feature.TRACE_STACKS & ~Feature.MEANING
SLACK_NS = 10_000_000
"""How far a device's clock may be from ours: a reader of both may be delayed in between."""


@dataclass(frozen=True, slots=True)
class Recorded:
    profile: Path
    outcome: Outcome
    process: Process
    executions: pl.DataFrame
    """Executions in the driver's log: name, begin_ns, end_ns."""

    @property
    def calls(self) -> pl.DataFrame:
        names = self.process.table("call_names").filter(pl.col("backend") == int(CallBackend.LEVEL_ZERO))
        return self.process.table("calls").join(names.select(name="id", function="name"), on="name", maintain_order="left")

    @property
    def launches(self) -> pl.DataFrame:
        return self.process.table("launches").filter(pl.col("api") == int(GpuApi.LEVEL_ZERO))

    @property
    def kernels(self) -> pl.DataFrame:
        """In the order in which they ran."""
        shapes = self.process.table("kernel_shapes").select(pl.exclude("check", "api"), shape="id")
        return self.process.table("kernels").join(shapes, on="shape", maintain_order="left").sort("start_ns")


@dataclass(frozen=True, slots=True)
class LevelZero:
    folder: Path
    client: Path
    driver: Path

    def environment(self) -> dict[str, str]:
        return {
            "ZE_ENABLE_ALT_DRIVERS": str(self.driver),
            "ZE_DRIVER_LOG": str(self.folder / "log"),
            "ZE_DRIVER_MODULES": str(self.folder / "modules"),
            "ZE_CLIENT_ZEBINS": str(INTEL),
        }

    def recorded(self, *scenes: str, features: int = FEATURES, env: Mapping[str, str] | None = None) -> Recorded:
        profile = self.folder / f"p{len(list(self.folder.glob('p[0-9]*')))}"
        preload = library().with_name("libaiflame_level_zero.so")
        if not preload.is_file():
            pytest.skip(f"no {preload.name} beside the collector: `make build`")
        whole = {**self.environment(), "LD_PRELOAD": str(preload), **(env or {})}
        outcome = recorded([self.client, *scenes], profile, features=features, env=whole)
        assert outcome.status == 0, outcome.stderr
        (process,) = processes(profile)
        lines = [line.split() for line in (self.folder / "log").read_text().splitlines()]
        executions = [(name, int(begin), int(end)) for name, begin, end in lines]
        return Recorded(profile, outcome, process, pl.DataFrame(executions, schema=["name", "begin_ns", "end_ns"], orient="row"))


@pytest.fixture(scope="module")
def level_zero(tmp_path_factory: pytest.TempPathFactory) -> LevelZero:
    if not (ctypes.util.find_library("ze_loader") and Path("/usr/include/level_zero/ze_api.h").is_file()):
        pytest.skip("no loader of Level Zero here: `make test` installs it (Debian: libze1, libze-dev)")
    folder = tmp_path_factory.mktemp("level_zero")
    sources = [str(PROGRAMS / name) for name in ("ze_device.cpp", "ze_modules.cpp", "ze_extensions.cpp")]
    driver = build(PROGRAMS / "ze_driver.cpp", folder, *sources, "-shared", "-fPIC").rename(folder / "libze_driver.so")
    return LevelZero(folder, build(PROGRAMS / "ze_client.cpp", folder, "-lze_loader"), driver)


@pytest.fixture(scope="module")
def known_run(level_zero: LevelZero) -> Recorded:
    return level_zero.recorded("lists", "immediate", "newer")


def test_there_are_as_many_calls_as_the_program_made(known_run: Recorded) -> None:
    """A function of the loader or of the driver that aiflame does not know goes through: the program has checked its result."""
    assert dict(known_run.calls.group_by("function").len().rows()) == json.loads(known_run.outcome.stdout)
    assert known_run.calls.filter(pl.col("failed") == 1)["function"].to_list() == ["zeCommandQueueExecuteCommandLists"]
    moved = known_run.calls.filter(pl.col("bytes") > 0).sort("begin_ns").select("function", "bytes").rows()
    assert moved == [
        ("zeCommandListAppendMemoryCopy", 64),
        ("zeCommandListAppendMemoryCopy", 32),
        ("zeCommandListAppendMemoryFill", 16),
    ]
    assert (known_run.calls["stack"] == 0).all(), "stacks are on request"


def test_a_call_that_waits_takes_as_long_as_the_kernel(known_run: Recorded) -> None:
    """Two of eight, into a list that waits by itself."""
    took = known_run.calls.select("function", seconds=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9).sort("seconds")
    appended = took.filter(pl.col("function") == "zeCommandListAppendLaunchKernel")["seconds"].to_list()
    assert all(0.040 <= seconds < 2 for seconds in appended[-2:]), "the machine may be busy"


def test_every_kernel_is_there_with_its_size_and_place(known_run: Recorded) -> None:
    kernels = known_run.kernels
    names = ["sleep_20", "sleep_20", "sleep_30", *["sleep_10"] * 3, "sleep_40", "sleep_40"]
    assert kernels["name"].to_list() == names
    assert set(kernels["device"]) == {"Sleeper 1"} and set(kernels["api"]) == {int(GpuApi.LEVEL_ZERO)}
    shapes = kernels.select("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y").unique().sort("name").rows()
    assert shapes == [
        ("sleep_10", 1, 1, 1, 1, 1),
        ("sleep_20", 4, 2, 1, 16, 1),
        ("sleep_30", 4, 2, 1, 8, 1),
        ("sleep_40", 1, 1, 1, 2, 1),
    ]
    assert len(kernels["stream"].unique()) == 3, "a queue and two immediate lists"


def test_times_are_the_drivers_on_our_clock(known_run: Recorded) -> None:
    """Those of kernels have 32 bits, which wrap soon after the device was started."""
    said = known_run.executions.filter(pl.col("name").str.starts_with("sleep_"))
    assert len(said) == len(known_run.kernels)
    assert ((known_run.kernels["start_ns"].cast(pl.Int64) - said["begin_ns"]).abs() < SLACK_NS).all()
    took, takes = known_run.kernels["end_ns"] - known_run.kernels["start_ns"], said["end_ns"] - said["begin_ns"]
    assert ((took.cast(pl.Int64) - takes).abs() <= 200).all(), "a cycle is 40 ns"


def test_copies(known_run: Recorded) -> None:
    copies = known_run.process.table("copies").sort("start_ns")
    kinds = [CopyKind.HOST_TO_DEVICE, CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST, CopyKind.FILL]
    assert copies["kind"].to_list() == [int(kind) for kind in kinds]
    assert copies["bytes"].to_list() == [64, 64, 32, 16]


def test_each_kernel_and_copy_has_its_launch(known_run: Recorded) -> None:
    columns = "correlation", "start_ns"
    executions = pl.concat([known_run.kernels.select(*columns), known_run.process.table("copies").select(*columns)])
    joined = executions.join(known_run.launches, on="correlation", how="left")
    assert len(executions) == len(joined) == 12
    shared = joined.group_by("correlation").len().filter(pl.col("len") > 1)
    assert shared["len"].to_list() == [2], "the kernel and the copy of the list that is executed a second time"
    assert len(known_run.launches) == 11
    assert (joined["stack"] > 0).all() and (joined["thread"] > 0).all()
    assert (joined["begin_ns"] <= joined["start_ns"] + SLACK_NS).all()


def test_kernels_of_sycl_whose_events_a_function_of_the_driver_makes(level_zero: LevelZero) -> None:
    """One event is signaled by one kernel after the other; the list that is appended has a kernel without an event."""
    run = level_zero.recorded("sycl")
    assert dict(run.calls.group_by("function").len().rows()) == json.loads(run.outcome.stdout)
    kernels = run.kernels
    assert kernels["name"].to_list() == ["sleep_10", "sleep_20", "sleep_10", "sleep_30", "sleep_20"]
    assert kernels["block_x"].to_list() == [1, 2, 1, 4, 2]
    took, takes = kernels["end_ns"] - kernels["start_ns"], run.executions["end_ns"] - run.executions["begin_ns"]
    assert ((took.cast(pl.Int64) - takes).abs() <= 200).all()
    assert set(kernels["correlation"]) == set(run.launches["correlation"]) and (run.launches["stack"] > 0).all()


def test_an_event_that_is_given_to_the_next_launch_before_its_kernel_is_done(level_zero: LevelZero) -> None:
    """As SYCL does that drops the events of its launches. The first such kernel has no time; all others have events of ours."""
    run = level_zero.recorded("reuses")
    assert dict(run.calls.group_by("function").len().rows()) == json.loads(run.outcome.stdout)
    assert len(run.launches) == 6
    assert run.kernels["name"].to_list() == ["sleep_20", "sleep_10", "sleep_20", "sleep_10", "sleep_20"]
    said = run.executions[1:]
    took, takes = run.kernels["end_ns"] - run.kernels["start_ns"], said["end_ns"] - said["begin_ns"]
    assert ((took.cast(pl.Int64) - takes).abs() <= 200).all()


def test_modules_are_kept_with_their_addresses_and_times(level_zero: LevelZero) -> None:
    """The second module gets the first one's address. Linking changes code."""
    run = level_zero.recorded("modules")
    said = [(act, int(address), int(ns)) for act, address, ns in map(str.split, (level_zero.folder / "modules").read_text().splitlines())]
    loads = run.process.table("code_loads")
    unloads = dict(run.process.table("code_unloads").select("load", "time_ns").rows())
    assert [act for act, _, _ in said][:7] == ["load", "unload", "load", "load", "link", "link", "unload"]
    placed = [(address, ns) for act, address, ns in said if act in ("load", "link")]
    assert loads["address"].to_list() == [address for address, _ in placed]
    assert placed[0][0] == placed[1][0] != placed[2][0]
    assert all(driver_ns <= ns for ns, (_, driver_ns) in zip(loads["time_ns"], placed, strict=True))
    first, second, third, _, third_linked = loads["id"]
    assert unloads.keys() == {first, second, third, third_linked}, "the second is loaded to the end"
    gone = [ns for act, _, ns in said if act == "unload"]
    assert loads["time_ns"][0] < unloads[first] <= gone[0] <= loads["time_ns"][1]
    assert unloads[second] == loads["time_ns"][3] and loads["time_ns"][4] < unloads[third_linked] <= gone[1]
    assert set(loads["device"]) == {"Sleeper 1"}


def test_modules_files_are_those_of_the_driver(level_zero: LevelZero) -> None:
    run = level_zero.recorded("modules")
    loads = run.process.table("code_loads")
    names = ["matmul.lnl", "matmul.pvc", "three.ptl"]
    for name, (crc, address, size) in zip(names, loads.select("crc", "address", "bytes").rows(), strict=False):
        code = Zebin.of_bytes((run.profile / f"cubins/{crc:016x}.cubin").read_bytes())
        compiled = Zebin.of_bytes((INTEL / f"{name}.zebin").read_bytes())
        assert code and compiled
        assert [code.code(kernel.section) for kernel in code.kernels] == [compiled.code(kernel.section) for kernel in compiled.kernels]
        places = [(code.address(kernel), code.address(kernel) + kernel.size) for kernel in code.kernels]
        assert (address, address + size) == (min(places)[0], max(places)[1])
    assert run.process.table("cubins").select("crc", "bytes").rows() == [
        (crc, (run.profile / f"cubins/{crc:016x}.cubin").stat().st_size) for crc in loads["crc"]
    ]


def test_devices_have_their_pci_address(known_run: Recorded) -> None:
    assert known_run.process.table("gpu_devices").select("device", "address").rows() == [("Sleeper 1", "0000:03:1D.0")]


def test_a_second_device_of_the_same_name_has_a_number(level_zero: LevelZero) -> None:
    run = level_zero.recorded("two_devices")
    assert run.kernels.select("name", "device").rows() == [("sleep_10", "Sleeper 1"), ("sleep_20", "Sleeper 1 [1]")]
    addresses = run.process.table("gpu_devices").select("device", "address").rows()
    assert addresses == [("Sleeper 1", "0000:03:1D.0"), ("Sleeper 1 [1]", "0000:A4:1D.0")]


def test_an_event_that_the_device_resets(level_zero: LevelZero) -> None:
    """All three executions were launched. Their times are known where somebody could look before the next one began, as after the last."""
    run = level_zero.recorded("resets")
    assert len(run.launches) == len(run.executions) == 3
    assert 1 <= len(run.kernels) <= 3
    takes = (run.executions["end_ns"] - run.executions["begin_ns"]).to_list()
    for took in run.kernels["end_ns"] - run.kernels["start_ns"]:
        assert min(abs(took - each) for each in takes) <= 200


@pytest.mark.parametrize("driver", ["ZE_DRIVER_OLD", "ZE_DRIVER_NO_TIMESTAMPS", "ZE_DRIVER_EMPTY_TIMESTAMPS"])
def test_drivers_that_can_do_less(level_zero: LevelZero, known_run: Recorded, driver: str) -> None:
    """One that knows its clock in whole nanoseconds alone, and those without time stamps, of which there are calls and launches."""
    run = level_zero.recorded("lists", "immediate", "newer", env={driver: "1"})
    polls = "zeEventQueryStatus"
    counted = {name: count for name, count in run.calls.group_by("function").len().rows() if name != polls}
    assert counted == {name: count for name, count in json.loads(known_run.outcome.stdout).items() if name != polls}
    assert len(run.launches) == len(known_run.launches)
    assert len(run.kernels) == (len(known_run.kernels) if driver == "ZE_DRIVER_OLD" else 0)


def test_with_the_loader_in_between_and_its_own_layers(level_zero: LevelZero) -> None:
    layers = {"ZE_ENABLE_VALIDATION_LAYER": "1", "ZE_ENABLE_PARAMETER_VALIDATION": "1", "ZE_ENABLE_TRACING_LAYER": "1"}
    run = level_zero.recorded("lists", env={"ZE_ENABLE_LOADER_INTERCEPT": "1", **layers})
    assert dict(run.calls.group_by("function").len().rows()) == json.loads(run.outcome.stdout)
    assert run.kernels["name"].to_list() == ["sleep_20", "sleep_20", "sleep_30"]


def test_without_the_feature_the_program_is_unchanged(level_zero: LevelZero) -> None:
    run = level_zero.recorded("lists", features=FEATURES & ~Feature.TRACE_ZE)
    assert run.calls.is_empty() and run.launches.is_empty() and run.kernels.is_empty()
    assert run.outcome == plain([level_zero.client, "lists"], level_zero.folder, level_zero.environment())


def test_a_list_that_is_executed_again_before_it_is_done(level_zero: LevelZero) -> None:
    """Of the three executions before the first wait, the last has its time; so has the one after it. All were launched."""
    run = level_zero.recorded("overlaps")
    assert len(run.launches) == len(run.executions) == 4
    assert run.kernels["correlation"].to_list() == run.launches["correlation"].to_list()[2:]
    said = run.executions[2:]
    assert ((run.kernels["start_ns"].cast(pl.Int64) - said["begin_ns"]).abs() < SLACK_NS).all()
    took, takes = run.kernels["end_ns"] - run.kernels["start_ns"], said["end_ns"] - said["begin_ns"]
    assert ((took.cast(pl.Int64) - takes).abs() <= 200).all()
    assert [note for note in run.process.table("notes")["text"].to_list() if "executed again before it was done" in note]


def test_a_list_that_a_queue_executes_once_more_is_replayed(known_run: Recorded) -> None:
    """First its kernel is launched where it was appended; then it is a node with that stack, launched where the list is executed."""
    once, again = known_run.kernels.filter(name="sleep_20").sort("start_ns").iter_rows(named=True)
    assert once["node"] == 0 < again["node"]
    (node,) = known_run.process.table("graph_nodes").filter(node=again["node"]).iter_rows(named=True)
    stacks = dict(known_run.launches.select("correlation", "stack").iter_rows())
    assert stacks[once["correlation"]] == node["stack"] != stacks[again["correlation"]] > 0


def test_a_driver_that_does_not_hand_out_code(level_zero: LevelZero) -> None:
    run = level_zero.recorded("modules", "overlaps", env={"ZE_DRIVER_NO_CODE": "1"})
    assert run.process.table("code_loads").is_empty() and len(run.launches) == 4 and len(run.kernels) == 2
    assert [note for note in run.process.table("notes")["text"].to_list() if "does not hand out the code" in note]


def test_a_list_that_is_appended_to_another_is_replayed(level_zero: LevelZero) -> None:
    """As SYCL does with its graphs. Its kernel is a node with the stack of its recording, and has the launch of the append."""
    run = level_zero.recorded("sycl")
    (node,) = run.process.table("graph_nodes").iter_rows(named=True)
    (replayed,) = run.kernels.filter(pl.col("node") > 0).iter_rows(named=True)
    assert (replayed["node"], replayed["name"]) == (node["node"], "sleep_30")
    (launch,) = run.launches.filter(correlation=replayed["correlation"]).iter_rows(named=True)
    assert 0 < launch["stack"] != node["stack"] > 0
    assert node["time_ns"] < launch["begin_ns"]
    assert len(run.launches) == len(run.kernels) == 5


MODULES = """
ze = ctypes.CDLL("libze_loader.so.1")
words = lambda *values: (ctypes.c_uint64 * len(values))(*values)
def call(name, *arguments):
    result = getattr(ze, name)(*arguments)
    assert result == 0, (name, hex(result))
def made(name, *arguments):
    handle = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(handle))
    return handle
one = ctypes.c_uint32(1)
driver, device = ctypes.c_void_p(), ctypes.c_void_p()
call("zeInit", 0)
call("zeDriverGet", ctypes.byref(one), ctypes.byref(driver))
call("zeDeviceGet", driver, ctypes.byref(one), ctypes.byref(device))
context = made("zeContextCreate", driver, words(0xD, 0))
code = ctypes.create_string_buffer(b"sleepers")
module = ctypes.c_void_p()
call("zeModuleCreate", context, device, words(0x1B, 0, 0, 8, ctypes.addressof(code), 0, 0), ctypes.byref(module), None)
commands = made("zeCommandListCreateImmediate", context, device, words(0xE, 0, 0, 2 << 32, 0))
pool = made("zeEventPoolCreate", context, words(0x10, 0, 1 | 1 << 32), 0, None)
event = made("zeEventCreate", pool, words(0x11, 0, 4 << 32, 4))

def launch(name):
    text = ctypes.create_string_buffer(name)
    kernel = made("zeKernelCreate", module, words(0x1D, 0, 0, ctypes.addressof(text)))
    call("zeKernelSetGroupSize", kernel, 1, 1, 1)
    call("zeCommandListAppendLaunchKernel", commands, kernel, (ctypes.c_uint32 * 3)(1, 1, 1), event, 0, None)
    call("zeEventHostSynchronize", event, ctypes.c_uint64(-1))
    call("zeEventHostReset", event)

net = Net()
net.first, net.second = [lambda: launch(b"sleep_1")] * 3, [lambda: launch(b"sleep_7")]
net()
"""


def test_kernels_stand_under_the_layers_that_launched_them(level_zero: LevelZero, tmp_path: Path) -> None:
    """Those of a program with torch's modules."""
    environment = {**level_zero.environment(), "LD_PRELOAD": str(library().with_name("libaiflame_level_zero.so"))}
    outcome = recorded([sys.executable, program(tmp_path, MODULES)], tmp_path / "p", features=EVERYTHING, env=environment)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(tmp_path / "p")
    kernels = kernels_by_layers(process)
    assert [layers for layers, _ in kernels] == [("Net", "First")] * 3 + [("Net", "Second")]
    assert [took >= wanted * 1_000_000 for (_, took), wanted in zip(kernels, (1, 1, 1, 7), strict=True)] == [True] * 4
