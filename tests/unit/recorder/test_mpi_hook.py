"""The library that traces MPI is preloaded beside the collector, and only where MPI is."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiflame.recorder.hooks import environment
from aiflame.recorder.mpi import uses_mpi
from aiflame.recorder.tracing import DEFAULT, asked_for, trace_features

PROFILE = Path("/profiles/p.aiflame")


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "libaiflame.so").touch()
    monkeypatch.setenv("AIFLAME_LIBRARY", str(tmp_path / "libaiflame.so"))
    return tmp_path


def preloaded(base: dict[str, str], command: list[str], trace: str = DEFAULT) -> list[str]:
    features = trace_features(trace, stacks=False)
    variables, notes = environment(base, PROFILE, features, command, asked=asked_for(trace))
    assert notes == []
    return [Path(entry).name for entry in variables["LD_PRELOAD"].split(":")]


BOTH = ["libaiflame.so", "libaiflame_mpi.so"]
ALONE = ["libaiflame.so"]


@pytest.mark.parametrize("launcher", ["mpirun", "/usr/bin/mpiexec", "mpiexec.hydra", "mpirun.openmpi", "orterun", "prterun", "srun"])
def test_a_launcher_of_mpi_starts_programs_of_mpi(launcher: str) -> None:
    assert uses_mpi({}, [launcher, "-n", "4", "./program"])
    assert preloaded({}, [launcher, "-n", "4", "./program"]) == BOTH


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"])
def test_a_rank_is_a_program_of_mpi(variable: str) -> None:
    assert preloaded({variable: "0"}, ["./program"]) == BOTH


def test_other_programs_go_without() -> None:
    assert preloaded({}, ["python", "mpirun.py"]) == ALONE
    assert preloaded({"RANK": "0", "WORLD_SIZE": "2"}, ["torchrun", "train.py"]) == ALONE
    assert not uses_mpi({}, [])


def test_a_persons_own_choice_counts() -> None:
    assert preloaded({}, ["./program"], "mpi") == BOTH
    assert preloaded({}, ["./program"], "opencl") == ALONE
    assert preloaded({"PMI_RANK": "0"}, ["mpirun"], "opencl") == ALONE


def test_preloaded_libraries_stay_behind_ours() -> None:
    assert preloaded({"LD_PRELOAD": "a.so:b.so"}, ["mpirun"]) == [*BOTH, "a.so", "b.so"]
    assert preloaded({"LD_PRELOAD": "a.so:b.so"}, ["./program"]) == [*ALONE, "a.so", "b.so"]


def test_a_recording_inside_a_recording_preloads_nothing_twice(libraries: Path) -> None:
    theirs = ":".join(str(libraries / name) for name in BOTH)
    assert preloaded({"LD_PRELOAD": theirs}, ["mpirun"]) == BOTH
