"""Programs with JAX on the CPU, which run in the guests' Python: JAX is not among the packages that aiflame's own tests need."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

GUESTS = Path(os.environ.get("AIFLAME_GUESTS", Path(__file__).resolve().parents[3] / ".guests"))


@functools.cache
def python_with_jax() -> str:
    for python in (str(GUESTS / "python/bin/python"), sys.executable):
        if Path(python).exists() and subprocess.run([python, "-c", "import jax"], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("JAX is not installed")
