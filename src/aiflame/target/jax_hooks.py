"""Hooks in JAX: origins of kernels, calls of jitted functions, why such a function is traced again, and its allocators' memory."""

from __future__ import annotations

import sys
from typing import Any

from . import jax_memory, jax_ops, jit_functions, jit_traces


def install(jax: Any) -> None:
    """Called when the program has imported jax."""
    jax_ops.install(jax)
    pjit = sys.modules.get("jax._src.pjit")
    if pjit is not None:
        jit_functions.install(pjit)
        jit_traces.install(pjit)


def recording_began() -> None:
    jax_ops.recording_began()
    jit_functions.recording_began()


def tick() -> None:
    jax_memory.tick()
