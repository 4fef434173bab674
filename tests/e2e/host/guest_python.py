"""Programs with packages of the guests (JAX, transformers), which aiflame's own tests do not need: they run in the guests' Python."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

GUESTS = Path(os.environ.get("AIFLAME_GUESTS", Path(__file__).resolve().parents[3] / ".guests"))


@functools.cache
def python_with(*packages: str) -> str:
    """An interpreter that finds the packages: to import them would take seconds."""
    look = f"import sys, importlib.util as util; sys.exit(not all(map(util.find_spec, {packages!r})))"
    for python in (str(GUESTS / "python/bin/python"), sys.executable):
        if Path(python).exists() and subprocess.run([python, "-c", look], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"not installed: {', '.join(packages)}")
