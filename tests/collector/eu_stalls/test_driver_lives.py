"""Programs on Intel's own driver that fork, become others, unload the driver or use another vendor's GPU, and drivers of another age."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import CallBackend
from built import built

LOADER = "libze_loader.so.1"
HIP = "programs/libamdhip64.so.7"
TURN, REPLAYS = 10, 12
"""launches"""


class Lives:
    """The driver's machine, and the program with its scenes."""

    def __init__(self, driver: Any, folder: Path, options: str = "-g") -> None:
        self.machine = driver.machine_of("lnl-m", folder, options)
        self._program = driver.program_of(folder, "ze_lives", "c")

    def record(self, scene: str, *arguments: str | Path, **more: Any) -> Any:
        recorded = self.machine.record(self._program, scene, LOADER, self.machine.level_zero[1], *arguments, **more)
        assert recorded.status == 0
        return recorded


@pytest.fixture(scope="module")
def lives(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return Lives(driver, tmp_path_factory.mktemp("lives"))


def active(recorded: Any) -> Counter[int]:
    """Samples of active threads by offset."""
    sums: Counter[int] = Counter()
    for (offset, reason), count in recorded.samples().items():
        if reason == "active":
            sums[offset] += count
    return sums


def equals_truth(lives: Lives, recorded: Any) -> bool:
    """The program has one kernel, which may lie at several addresses, one after the other."""
    truth: Counter[int] = Counter()
    for line in (lives.machine.xe.root / "truth").read_text().splitlines():
        _, _, offset, count = line.split()
        truth[int(offset, 16)] += int(count)
    ours = active(recorded)
    skipped = min(ours) - min(truth)  # the first instructions, which a kernel without arguments in registers needs not
    return skipped % 64 == 0 and ours == {offset + skipped: count for offset, count in truth.items()}


@pytest.mark.parametrize(("scene", "processes"), [("fork", 2), ("exec", 2), ("dlclose", 1)])
def test_both_turns_are_there_with_all_their_samples(lives: Lives, scene: str, processes: int) -> None:
    """Beside a fork whose child closes all that it inherited, an exec in between, and a driver that is unloaded and comes back."""
    recorded = lives.record(scene)
    assert len(recorded.profile.table("kernels")) == len(recorded.profile.table("launches")) == 2 * TURN
    assert len(recorded.profile.table("processes")) == processes
    assert equals_truth(lives, recorded)
    divided = [note for note in recorded.notes() if "several processes had code" in note]
    assert recorded.notes() == divided, "a block may have samples of both programs of the exec"


GRAPHS = [("graph", "capture"), ("older-graph", "capture_by_extensions"), ("two-lists", "capture_two_lists")]


@pytest.mark.parametrize(("scene", "captured"), GRAPHS)
def test_graphs(lives: Lives, scene: str, captured: str) -> None:
    """A graph of two kernels, of 5 and of 10 groups, is replayed by two callers. Each kernel has its time and both stacks."""
    recorded = lives.record(scene)
    kernels, launches = recorded.profile.table("kernels"), recorded.profile.table("launches")
    replayed = kernels.filter(kernels["node"] > 0)
    assert len(kernels) - len(replayed) == TURN
    assert len(replayed) == 2 * REPLAYS and len(launches) == TURN + REPLAYS
    assert set(replayed["correlation"]) <= set(launches["correlation"])
    assert replayed["node"].n_unique() == len(recorded.profile.table("graph_nodes")) == 2
    assert equals_truth(lives, recorded)
    for metric, error in (("gpu-time", 0.01), ("gpu-stalls", 0.1)):
        sums = callers(recorded, metric, captured)
        assert sums["first"] / sums.total() == pytest.approx(0.75, abs=error), metric
    assert not [note for note in recorded.profile.notes() if "Level Zero" in note]


def callers(recorded: Any, metric: str, captured: str) -> Counter[str]:
    """Sums of replayed kernels by the caller of the replay, all of which have the stack of their capture, too."""
    of = tree(recorded.profile, metric, detail="function")
    names = of.frames["name"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(of.values[metric].tolist()):
        at, path = node, list[str]()
        while at > 0:
            path.append(names[of.frame[at]])
            at = int(of.parent[at])
        if value and "[graph replay]" in path:
            replay = path.index("[graph replay]")
            assert path[0] == "matmul" and captured in path[:replay]
            (caller,) = {"first", "second"}.intersection(path[replay:])
            sums[caller] += value
    return sums


def test_launches_before_and_after_a_capture(lives: Lives) -> None:
    """The graph runs never; its first end was refused."""
    recorded = lives.record("refused-end")
    assert len(recorded.profile.table("graph_nodes")) == 2
    assert len(recorded.profile.table("launches")) == len(recorded.profile.table("kernels")) == 2 * TURN
    assert (recorded.profile.table("kernels")["node"] == 0).all()


def test_a_gpu_of_another_vendor_beside(lives: Lives) -> None:
    recorded = lives.record("vendors", built(HIP), trace="ze,hip")
    assert len(recorded.profile.table("kernels")) == 2 * TURN
    assert equals_truth(lives, recorded)
    names, calls = recorded.profile.table("call_names"), recorded.profile.table("calls")
    of_hip = names.filter(backend=int(CallBackend.HIP))
    counted = dict(calls.join(of_hip, left_on="name", right_on="id").group_by("name_right").len().rows())
    assert counted == {"hipMalloc": 3, "hipFree": 3}
    assert calls["name"].is_in(names.filter(backend=int(CallBackend.LEVEL_ZERO))["id"].to_list()).any()


def test_a_flight_recorder_has_the_samples_of_its_window(lives: Lives) -> None:
    recorded = lives.record("plain", options=("--last", "30s"))
    assert len(recorded.profile.table("kernels")) == TURN
    assert equals_truth(lives, recorded)
    assert recorded.notes() == []


def test_a_kernel_older_than_stall_sampling(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of the program runs all the same."""
    monkeypatch.setenv("FAKE_XE_OLD", "1")
    recorded = lives.record("plain")
    assert len(recorded.profile.table("kernels")) == TURN
    assert recorded.profile.table("gpu_windows").is_empty()
    assert recorded.notes() == ["stalls of the Intel GPU 0000:03:00.0 are not sampled: this kernel's xe driver cannot (Linux 6.15 can)"]


def test_a_module_without_debug_information(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its samples are at instructions of its function."""
    lives = Lives(driver, tmp_path_factory.mktemp("bare"), options="")
    recorded = lives.record("plain")
    assert equals_truth(lives, recorded)
    begins = set(recorded.profile.table("gpu_instructions").filter(function="matmul")["offset"])
    assert active(recorded).keys() <= begins
    assert recorded.notes() == []
