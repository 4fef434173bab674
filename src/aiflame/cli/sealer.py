"""The process that `aiflame record` leaves behind: seals a profile and names what is in it, with the least priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import boot_id
from aiflame.profile.ranks.job import FOLDER as RANKS

_NICE = 10
"""Not the lowest: who waits for it on a machine where all processors are busy would wait for ever."""
_IOPRIO_SET, _IOPRIO_WHO_PROCESS, _IOPRIO_IDLE = 251, 1, 3 << 13


def main(profile: str, *held: str) -> None:
    """Nobody sees what goes wrong here: the next command that opens the profile says it, and does what is left to do.
    `held`: what the recorder holds open for us, INODE-DEVICE=DESCRIPTOR."""
    os.chdir("/")
    step_back()
    with contextlib.suppress(OSError), _turn(Path(profile)):
        import aiflame
        from aiflame.profile.sealing.background import leave_failure
        from aiflame.resolve.files import held_files

        held_files.take(dict(one.split("=") for one in held))
        folder = Folder.open(profile)
        try:
            aiflame.open(Path(profile))
        except Exception as error:  # whatever it is: somebody should know
            leave_failure(folder, error)


@contextlib.contextmanager
def _turn(profile: Path) -> Iterator[None]:
    """Ranks of a host are sealed one after the other: all at once would take its memory, and its processors from the job's next step.
    Whoever opens the profile does not wait for those whose turn has not come, and seals them."""
    if profile.parent.name != RANKS:
        yield
        return
    with Folder.open(profile.parent).locked(f"sealing-{boot_id() or os.uname().nodename}"):
        yield


def step_back() -> None:
    """Whatever else the machine does goes first."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)
