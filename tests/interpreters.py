"""The CPythons that are installed here."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
FREE_THREADED = ("3.13t", "3.14t")

OWN = Path(__file__).resolve().parents[1] / ".venv" / "interpreters"
"""Where `make test` lays those that it brings (scripts/test_interpreter.py)."""


@functools.cache
def interpreter(version: str) -> str | None:
    """An executable of that minor version, `t` for a free-threaded one: on PATH, one that pyenv keeps, or one that `make test` brings."""
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version.rstrip('t')}*/bin/python{version}")),
        str(OWN / version / "usr/bin" / f"python{version}"),
    ]
    if f"{sys.version_info[0]}.{sys.version_info[1]}{sys.abiflags}" == version:
        candidates.insert(0, sys.executable)
    for candidate in filter(None, candidates):
        if _runs(candidate):
            return candidate
    return None


def _runs(executable: str) -> bool:
    try:
        return subprocess.run([executable, "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
