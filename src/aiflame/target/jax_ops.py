"""Records the ops of XLA's kernels, by their name stack, and their source lines, when XLA has compiled a jitted function or JAX has loaded
it from its persistent cache.

A kernel of XLA is an instruction of the compiled HLO module: a fusion, or a single instruction.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from typing import Any

from . import kept_files
from .hlo_text import kernels

KEEP_IR = 2048
"""Feature.KEEP_IR"""
COMPILE = ("compile_or_get_cached", "backend_compile_and_load", "backend_compile")
"""Functions of jax._src.compiler. All programs pass through the first one that exists, cached or not."""

_DONE = "_aiflame_done"
_rows: list[tuple[str, str, str, str, str]] = []
"""Rows of `kernel_origins`"""


def install(jax: Any) -> None:
    compiler = importlib.import_module("jax._src.compiler")
    name = next((name for name in COMPILE if hasattr(compiler, name)), None)
    if name is None:
        raise RuntimeError(f"JAX {getattr(jax, '__version__', '?')} compiles in an unknown way: its kernels have no origins")
    original = getattr(compiler, name)
    if getattr(original, _DONE, False):
        return

    @functools.wraps(original)
    def compiled(*args: Any, **named: Any) -> Any:
        executable = original(*args, **named)
        try:
            record(executable)
        except Exception as error:
            sys.modules["_aiflame"].note(f"JAX: origins of kernels are incomplete ({type(error).__name__})")
        return executable

    setattr(compiled, _DONE, True)
    setattr(compiler, name, compiled)


def recording_began() -> None:
    """Records compiled modules again, in another recording of this process."""
    for row in _rows:
        sys.modules["_aiflame"].append("kernel_origins", *row)


def record(executable: Any) -> None:
    aiflame = sys.modules["_aiflame"]
    for module in executable.hlo_modules():
        text = module.to_string()
        for kernel in kernels(text):
            details = json.dumps({"line": 0, "library": "", "backward": any(op["backward"] for op in kernel.ops), "ops": kernel.ops})
            row = (kernel.name, "xla", str(module.name), "", details)
            _rows.append(row)
            aiflame.append("kernel_origins", *row)
        if aiflame.features & KEEP_IR:
            _keep(str(module.name), text)


def _keep(module: str, text: str) -> None:
    aiflame = sys.modules["_aiflame"]
    base = "".join(letter if letter.isalnum() or letter == "_" else "-" for letter in module)[:100]
    for number in range(1_000_000):
        file = f"hlo-{base}{f'-{number}' if number else ''}.txt"
        if kept_files.write(aiflame.profile, file, text):
            aiflame.append("kept_files", "", module, "hlo", file)
            return
