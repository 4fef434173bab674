"""Parses `--trace`: the runtimes whose calls are traced."""

from __future__ import annotations

from aiflame.errors import AiflameError
from aiflame.profile.schema.control_schema import Feature

BACKENDS = {
    "cuda": Feature.TRACE_CUDA,
    "opencl": Feature.TRACE_OPENCL,
    "mpi": Feature.TRACE_MPI,
    "openmp": Feature.TRACE_OPENMP,
    "nccl": Feature.TRACE_NCCL,
    "torch": Feature.TRACE_TORCH,
    "ze": Feature.TRACE_ZE,
    "hip": Feature.TRACE_HIP,
    "hsa": Feature.TRACE_HSA,
}
DEFAULT = "mpi,nccl,torch"
"""Communication: its calls are few, and show where ranks wait for each other. The other runtimes make many calls: users must name them."""


def parse_trace(text: str) -> str:
    """`opencl,mpi`, `all` or `off` → names of backends, each once, separated by commas."""
    named = {"all": ",".join(BACKENDS), "off": "", "auto": DEFAULT}.get(text.lower())
    if named is not None:
        return named
    chosen = [name.strip().lower() for name in text.split(",")]
    for name in chosen:
        if name not in BACKENDS:
            raise AiflameError(f"--trace {text}: {name!r} is none of {', '.join(BACKENDS)}, all, off, auto")
    return ",".join(dict.fromkeys(chosen))


def asked_for(backends: str) -> int:
    """Features of the backends that the user has named; 0 for the default."""
    return 0 if backends == DEFAULT else trace_features(backends, stacks=False)


def trace_features(backends: str, stacks: bool) -> int:
    return sum(int(BACKENDS[name]) for name in backends.split(",") if name) | (int(Feature.TRACE_STACKS) if stacks else 0)
