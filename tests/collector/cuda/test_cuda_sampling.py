"""Sampling of programs that run for a while, on the fake driver and the strict fake CUPTI: windows, destroyed contexts, failures.

A kernel of 1 ms gives 1 ms / 2^period samples, and every kernel that has ended is counted exactly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.control_schema import GpuSampling
from built import BUILT

FAKES = BUILT / "fake_cuda"
PROGRAM = Path(__file__).parents[2] / "e2e" / "programs" / "fake_gpu_sampling.py"

pytestmark = pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it")

PERIOD = 10
ONE_A_DEVICE = "GPU stalls are recorded of one CUDA context a device: those of its other contexts are missing"

Scene = Callable[..., tuple[Outcome, Process]]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Records a scene of fake_gpu_sampling.py, which must end well, and gives its first process."""

    def run(name: str, *arguments: str, gpu_sampling: int = PERIOD, env: Mapping[str, str] | None = None) -> tuple[Outcome, Process]:
        profile = tmp_path / name
        outcome = recorded([sys.executable, PROGRAM, name, *arguments], profile, gpu_sampling=gpu_sampling, env={**around(), **(env or {})})
        assert outcome.status == 0, outcome.stderr
        return outcome, processes(profile)[0]

    return run


def around() -> dict[str, str]:
    return {
        "CUDA_INJECTION64_PATH": str(library().with_name("libaiflame_agent.so")),
        "LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}",
        "FAKE_CUDA_DEVICES": "2",
    }


def expected(kernels: int) -> int:
    return kernels * 1_000_000 >> PERIOD


def test_each_sample_was_taken_in_its_window_and_none_is_lost(scene: Scene) -> None:
    """The fake decodes as often as it is configured, without reporting when."""
    outcome, process = scene("steady", "2")
    windows = process.table("gpu_windows").sort("end_ns")
    assert windows["samples"].sum() == process.table("gpu_samples")["count"].sum() == expected(int(outcome.stdout))
    took = (int(windows["end_ns"][-1]) - int(windows["begin_ns"][0])) / 1e9
    assert 3 <= windows.height <= took / 0.2 + 2, "at most one each 200 ms, and the last: a busy machine may leave looks out"
    rows = windows[:-1].rows(named=True)
    kernels = process.table("kernels")
    for earlier, later in pairwise(rows):
        assert earlier["begin_ns"] <= later["begin_ns"]
        # Where the program had no CPU for a while, windows may leave a time out in which no kernel ran.
        between = (pl.col("end_ns") > earlier["end_ns"]) & (pl.col("start_ns") < later["begin_ns"])
        assert later["begin_ns"] <= earlier["end_ns"] or kernels.filter(between).is_empty()
    # A window begins at the look before the one that ended the last window: the first two have one begin where the first look came late.
    assert all(first["end_ns"] <= third["begin_ns"] for first, third in zip(rows, rows[2:], strict=False))
    inside = windows.join_where(
        kernels, pl.col("end_ns_right") > pl.col("begin_ns"), pl.col("start_ns") < pl.col("end_ns"), suffix="_right"
    )
    most = inside.group_by("id").agg(pl.len() * (1_000_000 / (1 << PERIOD)) + 1)
    assert windows.join(most, on="id").filter(pl.col("samples") > pl.col("len")).is_empty()
    assert inside["correlation"].n_unique() == int(outcome.stdout)
    assert set(windows["period_log2"]) == {PERIOD}


def test_more_instructions_than_one_fetch_takes_are_all_there(scene: Scene) -> None:
    """A window's samples then are in several rows with the same edges. The exit waits a while for the last ones."""
    outcome, process = scene("steady", "2", gpu_sampling=5, env={"FAKE_CUPTI_INSTRUCTIONS": "40000"})
    samples = process.table("gpu_samples")
    assert samples["count"].sum() == int(outcome.stdout) * 1_000_000 >> 5
    assert samples["offset"].n_unique() == 40_000
    windows = process.table("gpu_windows")
    assert windows.select("begin_ns", "end_ns").is_duplicated().any(), "or it shows nothing"


def test_the_period_is_chosen_once_under_any_load(scene: Scene) -> None:
    """Each kernel comes with 20,000 samples of others, a hundred times the budget. The fake ends a program that is sampled anew."""
    outcome, process = scene("steady", "3", gpu_sampling=GpuSampling.AUTO, env={"FAKE_CUPTI_FOREIGN_SAMPLES": "20000"})
    windows = process.table("gpu_windows")
    assert windows["period_log2"].n_unique() == 1
    assert windows["foreign"].sum() == 20_000 * int(outcome.stdout)
    assert process.table("notes").is_empty()


def test_dropped_samples_are_counted_and_noted_once(scene: Scene) -> None:
    """Each kernel gives 976 or 977."""
    outcome, process = scene("steady", "1", env={"FAKE_CUPTI_DROPPED_SAMPLES": "100"})
    assert process.table("gpu_windows")["dropped"].sum() == 100 * int(outcome.stdout)
    (note,) = process.table("notes")["text"]
    assert "dropped many of its stall samples" in note


def test_a_few_dropped_samples_are_not_worth_a_note(scene: Scene) -> None:
    outcome, process = scene("steady", "1", env={"FAKE_CUPTI_DROPPED_SAMPLES": "1"})
    assert process.table("gpu_windows")["dropped"].sum() == int(outcome.stdout)
    assert process.table("notes").is_empty()


def test_after_cupti_has_ended_itself_in_a_fetch_it_is_not_called_again(scene: Scene) -> None:
    """The fake ends a program that does."""
    outcome, process = scene("steady", "2", env={"FAKE_CUPTI_FAILS": "4"})
    assert process.table("kernels").height < int(outcome.stdout)
    assert 0 < process.table("gpu_samples")["count"].sum() <= expected(int(outcome.stdout))
    (note,) = process.table("notes")["text"]
    assert note.startswith("GPU kernels are not recorded from here on: CUPTI ended itself after an error (")


def test_of_two_processes_on_a_device_one_is_sampled(scene: Scene, tmp_path: Path) -> None:
    outcome, process = scene("beside_another", env={"FAKE_CUDA_MACHINE": str(os.getpid())})
    first, other = map(int, outcome.stdout.split())
    beside = processes(tmp_path / "beside_another")[1]
    assert (process.table("kernels").height, beside.table("kernels").height) == (first, other)
    assert process.table("gpu_samples")["count"].sum() == expected(first)
    assert beside.table("gpu_samples").is_empty()
    assert process.table("notes").is_empty()
    (note,) = beside.table("notes")["text"]
    assert note.startswith("GPU stalls are recorded of one process a device")


def test_a_fetch_that_is_not_ready_is_made_up_for(scene: Scene) -> None:
    outcome, process = scene("steady", "1", env={"FAKE_CUPTI_NOT_READY": "3"})
    assert process.table("gpu_samples")["count"].sum() == expected(int(outcome.stdout))
    assert process.table("notes").is_empty()


def test_contexts_may_go_while_others_are_sampled(scene: Scene) -> None:
    _, process = scene("come_and_go", "12", env={"FAKE_CUDA_DEVICES": "12"})
    kernels, names = process.table("kernels"), process.table("gpu_functions")["name"]
    assert set(names) == {f"of_{number}" for number in range(12)}
    # Each function of each context keeps less than a sample for itself.
    exact = (kernels["end_ns"] - kernels["start_ns"]).sum() >> PERIOD
    assert exact - 60 <= process.table("gpu_samples")["count"].sum() <= exact
    assert process.table("notes").is_empty()


def test_one_context_a_device_is_sampled_and_the_next_one_when_it_has_gone(scene: Scene) -> None:
    _, process = scene("several_contexts")
    assert set(process.table("gpu_functions")["name"]) == {"first", "third"}
    launched = process.table("kernels").join(process.table("kernel_shapes"), left_on="shape", right_on="id")
    assert set(launched["name"]) == {"first", "second", "third"}
    assert process.table("notes")["text"].to_list() == [ONE_A_DEVICE]


def test_never_two_contexts_of_a_device_however_they_come_and_go(scene: Scene) -> None:
    """The fake ends a program in which two are sampled."""
    _, process = scene("come_and_go", "2")
    assert process.table("gpu_samples")["count"].sum() > 0
    assert process.table("notes")["text"].to_list() == [ONE_A_DEVICE]


def test_a_context_destroyed_during_a_fetch_causes_no_long_delay_and_is_not_used_again(scene: Scene) -> None:
    """A fetch waits for 1.5 s, as if for a lock of the driver that the thread has which destroys the context."""
    _, process = scene("gone_meanwhile", env={"FAKE_CUPTI_SLOW_MS": "1500"})
    assert any("its last samples are missing" in note for note in process.table("notes")["text"])
    assert "stays" in process.table("gpu_functions")["name"].to_list()


def test_children_leave_their_parents_samples_alone(scene: Scene) -> None:
    outcome, process = scene("forked_while_sampled")
    assert outcome.stdout.strip() == str([0] * 10)
    kernels = process.table("kernels")
    assert process.table("gpu_samples")["count"].sum() == expected(kernels.height)


@pytest.mark.parametrize("scene", ["begun_and_ended", "begun_and_ended_beside_launches"])
def test_each_recording_has_its_own_rows(scene: str, tmp_path: Path) -> None:
    """Functions and reasons are written anew in each, and nothing of the time between. Where threads launch meanwhile, they are held while
    sampling ends: the fake ends a program where it does beside a launch."""
    profiles = [tmp_path / "first", tmp_path / "second"]
    for profile in profiles:
        (profile / "spool").mkdir(parents=True)
        ControlPage.create(Folder.open(profile), cpu_rate=999, features=EVERYTHING, gpu_sampling=PERIOD).close()
    env = {name: value for name, value in around().items() if name != "CUDA_INJECTION64_PATH"} | {"COLLECTOR": str(library())}
    outcome = plain([sys.executable, PROGRAM, scene, *profiles], tmp_path, env=env)
    assert outcome.status == 0, outcome.stderr
    for profile in profiles:
        (process,) = processes(profile)
        samples = process.table("gpu_samples")
        assert 0 < samples["count"].sum() <= expected(process.table("kernels").height)
        for column, table in (("window", "gpu_windows"), ("function", "gpu_functions"), ("reason", "stall_reasons")):
            assert samples.select(pl.col(column).is_between(1, process.table(table).height).all()).item()
