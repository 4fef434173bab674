"""CUDA in a program that `aiflame attach` meets while it runs, on the fake driver and the strict fake CUPTI: the fake ends a program
in which sampling begins or ends beside a launch, also beside one that had begun before anybody listened."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attaching import Program, attached, begin_attaching, device_notes
from cuda_scenes import FAKES, SAMPLED_ONCE, around, needs_fakes
from live import library

import aiflame
from aiflame.api import Profile

E2E = Path(__file__).parents[2] / "e2e"
PROGRAM = E2E / "host" / "programs" / "fake_gpu_attached.py"

pytestmark = needs_fakes

Start = Callable[..., Program]
CUT_NS = 6_000_000
"""Of three heavy kernels and a light one, of 1 ms each: the recording's begin and its end may each cut a turn in two."""


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Program] = []

    def begin(scene: str, **env: str) -> Program:
        library()  # or the test is skipped
        without_us = {name: value for name, value in around().items() if name != "CUDA_INJECTION64_PATH"}
        started.append(Program([PROGRAM, scene], {"PYTHONPATH": str(E2E / "programs"), "MALLOC_ARENA_MAX": "1", **without_us, **env}))
        return started[-1]

    yield begin
    for program in started:
        program.kill()


def stacks(profile: Profile) -> dict[tuple[str, ...], int]:
    """GPU time by the program's own functions and the frames of devices, from the outside in."""
    tree, totals = profile.tree("gpu-time"), dict[tuple[str, ...], int]()
    names = tree.frames["name"].to_list()
    shown = {"turn", "heavy", "light", "replayed_here", "[graph replay]", "[GPU idle]", "spin", "first", "second", "small"}
    for node, value in enumerate(tree.values["gpu-time"].tolist()):
        stack, at = list[str](), node
        while at > 0:
            name = names[tree.frame[at]]
            if name in shown or name.startswith("[unattributed"):
                stack.append(name)
            at = int(tree.parent[at])
        if value and stack != ["[GPU idle]"]:
            key = tuple(reversed(stack))
            totals[key] = totals.get(key, 0) + value
    return totals


def test_kernels_are_recorded_under_their_lines_and_nothing_stays(start: Start, tmp_path: Path) -> None:
    program = start("steady")
    before = program.facts()
    assert program.ask().keys() == {"launched"}, "CUPTI is not there before"
    first = attached(program, tmp_path / "first.aiflame", 3)
    times = stacks(first)
    heavy, light = (times.pop(("turn", name, "spin")) for name in ("heavy", "light"))
    assert abs(heavy - 3 * light) <= CUT_NS
    assert not times
    assert first.table("gpu_samples")["count"].sum() > 0, "its stalls are sampled once the device is known to be busy"
    assert not device_notes(first)
    assert set(first.table("gpu_devices")["device"]) == {"Fake GPU [0]", "Fake GPU [1]"}

    left = program.ask()
    assert left["kinds"] == 0
    again = program.ask()
    while again["launched"] < left["launched"] + 40:
        again = program.ask()
    assert again["called_back"] == left["called_back"], "a launch calls nobody back"
    of_the_fake = 1  # which never ends it
    assert program.facts()["threads"] == before["threads"] + of_the_fake

    second = attached(program, tmp_path / "second.aiflame", 1)
    times = stacks(second)
    assert abs(times["turn", "heavy", "spin"] - 3 * times["turn", "light", "spin"]) <= CUT_NS
    assert second.table("gpu_windows").is_empty()
    assert device_notes(second) == [SAMPLED_ONCE]
    program.end()


def test_a_graph_that_was_captured_before_is_under_its_replay(start: Start, tmp_path: Path) -> None:
    program = start("replaying")
    held = []
    for name in ("first", "second", "third"):
        # Sampling, which begins in the first recording that lasts long enough, has a buffer of 16 MB.
        times = stacks(attached(program, tmp_path / f"{name}.aiflame", 0.5, "--gpu-sampling", "off"))
        before = ("replayed_here", "[graph replay]", "[unattributed: graph node captured before recording]")
        kernels = (*before, "first"), (*before, "second")
        assert times.keys() == set(kernels)
        # A replay may be cut in two by the recording's begin and end.
        assert abs(times[kernels[0]] - 3 * times[kernels[1]]) <= 600_000
        held.append(program.facts())
    # The kernel splits and joins areas: 58 recordings add nine at most (benchmarks/recording/attach/cycles.py).
    for name, most in {"size_kb": 1100, "areas": 8, "threads": 0, "files": 0}.items():
        assert held[2][name] - held[1][name] <= most, held
    program.end()


def test_many_launches_are_not_sampled_and_the_counters_come_on_demand(start: Start, tmp_path: Path) -> None:
    program = start("launching")
    assert attached(program, tmp_path / "without.aiflame", 2).table("gpu_counters").is_empty()
    profile = attached(program, tmp_path / "with.aiflame", 2.5, "--gpu-counters", "auto")
    kernels, launches = profile.table("kernels"), profile.table("launches")
    assert kernels.height > 1000
    assert kernels.join(launches, on="correlation", how="anti").height <= 2, "each thread may have been in a launch when listening began"
    assert profile.table("gpu_windows").is_empty()
    assert profile.table("gpu_counters").height > 0
    assert not device_notes(profile)
    assert program.ask()["kinds"] == 0
    program.end()


def test_another_user_of_cupti_keeps_it(start: Start, tmp_path: Path) -> None:
    program = start("beside_a_tool", TOOL=str(FAKES / "tools" / "libproton_tool.so"))
    profile = attached(program, tmp_path / "p.aiflame", 0.5)
    assert profile.table("kernels").is_empty()
    assert device_notes(profile) == ["another tool uses CUPTI in this program: GPU kernels are not recorded"]
    program.end()


def test_a_launch_that_takes_long_leaves_sampling_on(start: Start, tmp_path: Path) -> None:
    """The fake ends a program in which sampling ends beside it."""
    program, path = start("steady"), tmp_path / "p.aiflame"
    recorder = begin_attaching(program.pid, path)
    while not program.ask().get("sampled"):
        time.sleep(0.05)
    program.ask("slow")
    recorder.send_signal(signal.SIGINT)
    _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, errors
    profile = aiflame.open(path)
    (note,) = device_notes(profile)
    assert note.startswith("the sampling of GPU stalls could not end beside a launch that took seconds"), note
    assert profile.table("kernels").height > 0
    assert device_notes(attached(program, tmp_path / "again.aiflame", 0.3)) == [SAMPLED_ONCE]
    program.end()


def test_device_code_that_was_loaded_before_is_found_in_tritons_cache(start: Start, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for folder, code in {"other": b"another version of it", "same": b"code of a compiler"}.items():
        (cache / folder).mkdir(parents=True)
        (cache / folder / "spin.cubin").write_bytes(code)
        (cache / folder / "unused.cubin").write_bytes(code)
    program = start("steady", TRITON_CACHE_DIR=str(cache), CUBIN=str(cache / "same" / "spin.cubin"))
    path = tmp_path / "p.aiflame"
    recorder = begin_attaching(program.pid, path)
    while not (sampled := program.ask()).get("sampled"):
        time.sleep(0.05)
    while program.ask()["launched"] < sampled["launched"] + 40:
        time.sleep(0.05)
    recorder.send_signal(signal.SIGINT)
    _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, errors
    (kept,) = (path / "cubins").iterdir()
    assert kept.read_bytes() == b"code of a compiler"
    profile = aiflame.open(path)
    assert [f"{crc:016x}.cubin" for crc in profile.table("gpu_functions")["cubin"]] == [kept.name]
    program.end()
