"""Display names of traced runtimes."""

from __future__ import annotations

from aiflame.profile.schema.enums import CallBackend

NAMES = {
    CallBackend.CUDA: "CUDA",
    CallBackend.OPENCL: "OpenCL",
    CallBackend.MPI: "MPI",
    CallBackend.OPENMP: "OpenMP",
    CallBackend.NCCL: "NCCL",
    CallBackend.TORCH: "torch.distributed",
    CallBackend.LEVEL_ZERO: "Level Zero",
    CallBackend.HIP: "HIP",
    CallBackend.HSA: "HSA",
}


def backend_name(number: int) -> str:
    """The display name of a `CallBackend`; "Other" for a number that only newer recorders use."""
    return {int(backend): name for backend, name in NAMES.items()}.get(number, "Other")
