"""Hooks in JAX: origins of kernels, calls of jitted functions, and why such a function is traced again."""

from __future__ import annotations

import importlib
from typing import Any

from . import jax_ops, jit_functions, jit_traces


def install(jax: Any) -> None:
    """Called when the program has imported jax."""
    pjit = importlib.import_module("jax._src.pjit")
    jit_functions.install(pjit)
    jit_traces.install(pjit)
    jax_ops.install(jax)


def recording_began() -> None:
    jax_ops.recording_began()
    jit_functions.recording_began()
