"""The process that `aiflame record` leaves behind: seals a profile and names what is in it, with the least priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_NICE = 10
"""Not the lowest: who waits for it on a machine where all processors are busy would wait for ever."""
_IOPRIO_SET, _IOPRIO_WHO_PROCESS, _IOPRIO_IDLE = 251, 1, 3 << 13


def main(profile: str) -> None:
    """Nobody sees what goes wrong here: the next command that opens the profile says it, and does what is left to do."""
    os.chdir("/")
    step_back()
    import aiflame
    from aiflame.profile.background import leave_failure
    from aiflame.profile.door import Folder

    with contextlib.suppress(OSError):
        folder = Folder.open(profile)  # before all else: it may be renamed meanwhile
        try:
            aiflame.open(Path(profile))
        except Exception as error:  # whatever it is: somebody should know
            leave_failure(folder, error)


def step_back() -> None:
    """Whatever else the machine does goes first."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)
