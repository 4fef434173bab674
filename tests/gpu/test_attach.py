"""`aiflame attach` of programs that use a GPU: it records the same as a recording from the start, and afterwards nothing grows.

Figures are written beside the outcomes (AIFLAME_GPU_RESULTS)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from attaching import Program, attach, attached, device_notes
from gpu_runs import PROGRAMS, Recorder
from recording import kernels, under
from torch_programs import needs_torch

import aiflame
from aiflame.api import Profile
from aiflame.attribute.tree import Tree

pytestmark = needs_torch

SECONDS, CYCLES = 4.0, 30
PLACES = ("narrow", "joint", "wide", "Forward", "Backward", "Optimizer")

Start = Callable[[str], Program]
Keep = Callable[[str, object], None]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Program] = []

    def begin(what: str) -> Program:
        started.append(Program([PROGRAMS / "attached.py", what], cwd=tmp_path))
        may_attach(started[-1], tmp_path)
        return started[-1]

    yield begin
    for program in started:
        program.kill()


def may_attach(program: Program, folder: Path) -> None:
    """A machine that lets nobody trace a program is no failure of ours."""
    path = Path(f"/proc/{program.pid}/mem")
    try:
        path.open("rb").close()
    except PermissionError:
        program.kill()
        pytest.skip("this machine lets nobody trace a program")


def device_time(tree: Tree) -> int:
    """Without the time in which the device was idle."""
    return tree.total("gpu-time") - int(tree.values["gpu-time"][under(tree, "[GPU idle]")].sum())


def shares(profile: Profile) -> dict[str, float]:
    """Shares of the device's time by layers and phases."""
    tree = profile.tree("gpu-time", by="step")
    return {name: float(tree.values["gpu-time"][under(tree, name)].sum()) / device_time(tree) for name in PLACES}


def kernel_shares(profile: Profile) -> dict[str, float]:
    took = {name: facts["took"] for name, facts in kernels(profile).items()}
    return {name: value / sum(took.values()) for name, value in took.items()}


def unattributed(profile: Profile) -> float:
    tree = profile.tree("gpu-time")
    names = tree.frames["name"].to_list()
    lost = np.array([name == "[unattributed: no launch]" for name in names])[tree.frame]
    return float(tree.values["gpu-time"][lost].sum()) / device_time(tree)


def test_a_training_loop_is_recorded_as_from_the_start(start: Start, record: Recorder, tmp_path: Path, record_property: Keep) -> None:
    program = start("train")
    attached_to = attached(program, tmp_path / "first.aiflame", SECONDS)
    again = attached(program, tmp_path / "second.aiflame", SECONDS)
    turns = program.end()["turns"]
    whole = record("attached.py", "train", str(SECONDS))
    assert whole.result.status == 0, whole.run.stderr
    expected = shares(whole.profile)
    figures = {
        "turns": turns,
        "expected": expected,
        "attached": shares(attached_to),
        "again": shares(again),
        "kernels": [attached_to.table("kernels").height, again.table("kernels").height],
        "samples": [int(one.table("gpu_samples")["count"].sum()) for one in (attached_to, again)],
        "counters": [one.table("gpu_counters").height for one in (attached_to, again)],
        "no launch": [unattributed(attached_to), unattributed(again)],
        "notes": [device_notes(attached_to), device_notes(again)],
    }
    record_property("figures", figures)
    assert min(expected[name] for name in ("narrow", "wide", "Forward", "Backward")) > 0.03, figures
    for one in (attached_to, again):
        assert shares(one) == pytest.approx(expected, abs=0.03), figures
        assert unattributed(one) < 0.01, figures
    assert attached_to.table("gpu_samples").height > 0, figures
    assert not device_notes(attached_to), figures
    assert again.table("gpu_windows").is_empty(), figures
    (note,) = device_notes(again)
    assert note.startswith("GPU stalls are not recorded any more"), figures


def test_a_graph_that_was_captured_before_is_under_its_replay(
    start: Start, record: Recorder, tmp_path: Path, record_property: Keep
) -> None:
    program = start("decode")
    attached_to = attached(program, tmp_path / "p.aiflame", SECONDS)
    program.end()
    whole = record("attached.py", "decode", str(SECONDS))
    assert whole.result.status == 0, whole.run.stderr
    expected, shown = kernel_shares(whole.profile), kernel_shares(attached_to)
    tree = attached_to.tree("gpu-time")
    names = ("either.<locals>.replayed_here", "[graph replay]", "[unattributed: graph node captured before recording]")
    inside = np.logical_and.reduce([under(tree, name) for name in names])
    replayed = float(tree.values["gpu-time"][inside].sum()) / device_time(tree)
    figures = {
        "expected": expected,
        "attached": shown,
        "replayed": replayed,
        "under": {name: float(tree.values["gpu-time"][under(tree, name)].sum()) / device_time(tree) for name in names},
        "no launch": unattributed(attached_to),
        "samples": int(attached_to.table("gpu_samples")["count"].sum()),
        "counters": attached_to.table("gpu_counters").height,
        "notes": device_notes(attached_to),
    }
    record_property("figures", figures)
    assert replayed > 0.5, figures
    for name in expected:
        assert shown.get(name, 0) == pytest.approx(expected[name], abs=0.03), (name, figures)
    assert unattributed(attached_to) < 0.01, figures
    assert not device_notes(attached_to), figures


def medians(windows: Sequence[tuple[float, float]]) -> dict[str, float]:
    """`ns` of a launch, and the same in `additions` of plain Python, which changes of the processor's speed leave as it is."""
    assert len(windows) >= 10
    return {
        "ns": statistics.median(launch for launch, _ in windows),
        "additions": statistics.median(launch / addition for launch, addition in windows),
    }


def watched(program: Program, seconds: float) -> dict[str, float]:
    """From fresh windows."""
    program.ask()
    time.sleep(seconds)
    return medians(program.ask()["ns_of"][1:])


def test_most_of_its_cost_goes_and_nothing_grows(start: Start, tmp_path: Path, record_property: Keep) -> None:
    program = start("launch")
    time.sleep(2)
    before, held = watched(program, 5), [program.facts()]
    after, meanwhile = [], []
    for number in range(4):
        seconds = SECONDS if number == 0 else 1.0
        program.ask()
        result = attach(program.pid, tmp_path / f"{number}.aiflame", seconds)
        assert result.returncode == 0, (result.stderr, program.kill())
        meanwhile.append(medians(program.ask()["ns_of"]))
        after.append(watched(program, 4))
        held.append(program.facts())
    figures: dict[str, object] = {"before": before, "attached": meanwhile, "after": after, "held": held}
    record_property("figures", figures)
    program.end()
    profile = aiflame.open(tmp_path / "0.aiflame")
    figures |= {"notes": device_notes(profile), "kernels": profile.table("kernels").height}
    record_property("figures", figures)
    # CUPTI keeps 13 to 33% of the smallest launches on an H200.
    assert statistics.median(each["additions"] for each in after) < 1.35 * before["additions"], figures
    first, last = held[1], held[-1]
    assert last["threads"] <= first["threads"], figures
    assert last["files"] == first["files"], figures
    assert last["resident_kb"] - first["resident_kb"] < 4096, figures
    # glibc reserves the address space of a thread's heap at once: 64 MiB.
    assert last["size_kb"] - first["size_kb"] < 64 << 10, figures
    assert profile.table("kernels").height > 10_000, figures


def test_graphs_go_on_whether_they_ran_meanwhile_or_not(start: Start, tmp_path: Path) -> None:
    """A graph that has run beside CUPTI cannot run once `cuptiFinalize` has been called."""
    program = start("either")
    for number, meanwhile in enumerate(("eager", "eager", "graph", "eager")):
        program.ask(meanwhile)
        result = attach(program.pid, tmp_path / f"{number}.aiflame", 0.5)
        assert result.returncode == 0, (result.stderr, program.kill())
        assert turns_on(program, "eager") and turns_on(program, "graph")
    program.end()


def turns_on(program: Program, how: str) -> bool:
    before = program.ask(how)["turns"]
    time.sleep(1)
    return bool(program.ask()["turns"] > before + 100)


def test_threads_that_do_anything_go_on(start: Start, tmp_path: Path, record_property: Keep) -> None:
    program, held = start("threads"), []
    for number in range(CYCLES):
        result = attach(program.pid, tmp_path / f"{number}.aiflame", 0.1)
        assert result.returncode == 0, (result.stderr, program.kill())
        held.append(program.facts())
    turns = program.ask()["turns"]
    time.sleep(1)
    assert program.ask()["turns"] > turns
    program.end()
    record_property("figures", {"held": [held[0], held[CYCLES // 2], held[-1]]})
    assert held[-1]["threads"] <= held[0]["threads"]
    assert held[-1]["files"] <= held[0]["files"]
