"""A line on the terminal while a profile is being sealed, by this command or by the background process of `aiflame record`, or imported."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from aiflame.errors import harmless

_AT_ONCE_S = 0.5
"""No line is shown for work that takes less time."""


class ProgressLine:
    """Called with the finished share, 0 to 1. Prints nothing unless stderr is a terminal."""

    def __init__(self, work: str, profile: Path | None) -> None:
        self._work = work
        self._name = harmless(profile.name) if profile is not None else "the profile"
        self._began = time.monotonic()
        self._shown = False
        self._wanted = sys.stderr.isatty()

    def __call__(self, share: float) -> None:
        if self._wanted and time.monotonic() - self._began > _AT_ONCE_S:
            print(f"\r\033[Kaiflame: {self._work} {self._name}: {min(max(share, 0.0), 1.0):.0%}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
