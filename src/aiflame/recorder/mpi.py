"""Decides whether a command is likely to use MPI: only then the library that traces its calls is preloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "srun")
"""Also with a suffix: mpiexec.hydra, mpirun.openmpi."""
VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
"""Variables that launchers set in each process. torchrun's RANK is not among them: torchrun starts no MPI."""


def uses_mpi(environment: Mapping[str, str], command: Sequence[str]) -> bool:
    """True if the command starts a launcher, or was started by one."""
    launcher = PurePath(command[0]).name.partition(".")[0] if command else ""
    return launcher in LAUNCHERS or any(environment.get(variable) for variable in VARIABLES)
