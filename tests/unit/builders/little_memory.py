"""Runs a function of a test in a process of its own, which may take so much memory and time more, and no more."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

SECONDS = 120
"""Seconds of CPU time. A refusal takes hardly any, but a machine may be slow."""


def said(script: str, *arguments: Path | str, megabytes: int = 256, seconds: int = SECONDS) -> str:
    """The output of a script that calls `limit()` when all is imported: the limits hold from there on. The test fails if they end it."""
    command = [sys.executable, "-c", f"from little_memory import limit\n{script}", *map(str, arguments)]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "LITTLE_MEMORY": str(megabytes),
        "LITTLE_TIME": str(seconds),
    }
    process = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=1200, check=False)
    assert process.returncode == 0, f"status {process.returncode}: {process.stderr[-2000:]}"
    return process.stdout


def limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (int(os.environ["LITTLE_MEMORY"]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    most_s = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + int(os.environ["LITTLE_TIME"])
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))
