"""The background process of `aiflame record`: seals a profile and resolves its names, at low priority; `--push` sends it from here."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import boot_id
from aiflame.profile.ranks.job import FOLDER as RANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.api import Profile

_NICE = 10
"""Not the lowest priority: otherwise a command on a busy machine would wait for ever."""
_IOPRIO_SET, _IOPRIO_WHO_PROCESS, _IOPRIO_IDLE = 251, 1, 3 << 13


def main(profile: str, *held: str) -> None:
    """Seals the profile. Errors are stored: the next command that opens the profile reports them and completes the work.

    `held`: libraries that the recorder holds open for us, as INODE-DEVICE=DESCRIPTOR, and `push=KEY`, the queue into which the profile
    is put."""
    os.chdir("/")
    step_back()
    with contextlib.suppress(OSError), _turn(Path(profile)):
        import aiflame
        from aiflame.profile.sealing.background import leave_failure
        from aiflame.resolve.files import held_files

        named = dict(one.split("=") for one in held)
        queue = named.pop("push", "")
        held_files.take(named)
        folder = Folder.open(profile)
        try:
            opened = aiflame.open(Path(profile))
        except Exception as error:  # any error is reported by the next command
            leave_failure(folder, error)
        else:
            if queue:
                _push(opened, queue)


def _push(profile: Profile, key: str) -> None:
    """Another process sends it: this one has all the memory that sealing took. `aiflame push --queue --list` shows an error."""
    from aiflame.push import enqueue
    from aiflame.push.queue import Queue
    from aiflame.recorder.hand_over import start_sender

    queue = Queue.called(key)
    if queue is None:
        return
    try:
        enqueue(profile, queue.destination)
    except Exception as error:
        queue.lost(f"{profile.path.name} could not be sent: {error}")
    start_sender(key)


@contextlib.contextmanager
def _turn(profile: Path) -> Iterator[None]:
    """Waits for the host's other ranks, which are sealed one after the other: all at once would take too much memory and processor time.

    A command that opens the profile does not wait for ranks in this queue: it seals them itself."""
    if profile.parent.name != RANKS:
        yield
        return
    with Folder.open(profile.parent).locked(f"sealing-{boot_id() or os.uname().nodename}"):
        yield


def step_back() -> None:
    """Gives all other work on the machine precedence."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)
