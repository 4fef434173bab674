"""Work of a program that a recorder which attaches to it cannot see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_INTEL = ("/libze_intel_gpu.so", "/libigdrcl.so")
"""Intel's drivers for Level Zero and OpenCL."""


def unseen_gpus(pids: Iterable[int], proc: Path = Path("/proc")) -> list[str]:
    """A note if one of the processes uses an Intel GPU, whose calls are recorded from the start of a program alone."""
    users = [pid for pid in pids if _uses_intel(proc / str(pid))]
    if not users:
        return []
    several = "processes" if len(users) > 1 else "process"
    return [
        f"{several} {', '.join(map(str, users))}: work and stalls of Intel GPUs are recorded only from the start of a program:"
        " aiflame record --trace ze -- COMMAND"
    ]


def _uses_intel(process: Path) -> bool:
    try:
        mapped = (process / "maps").read_text(errors="replace")
    except OSError:  # it has ended, or is another user's
        return False
    return any(name in mapped for name in _INTEL)
