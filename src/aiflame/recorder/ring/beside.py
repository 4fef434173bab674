"""The flight recorder of a program that records itself (`aiflame.record(last="2m")`): a process beside it removes old events."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.control_schema import ControlState
from aiflame.recorder.options import MOST_KEPT, RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.ring.flight import Flight

_EVERY_S = 0.25
_PATIENCE_S = 60.0
_PACKAGES = str(Path(__file__).absolute().parents[3])
_PROGRAM = (
    "import sys; sys.path[:1] = []; sys.path.append({packages!r}); from aiflame.recorder.ring.beside import main; main(*sys.argv[1:])"
)


class Beside:
    """That process, from the program's side."""

    def __init__(self, place: ProfileLocation) -> None:
        command = [sys.executable, "-c", _PROGRAM.format(packages=_PACKAGES), str(place.whole.absolute()), str(place.profile.absolute())]
        try:
            self._pid = os.posix_spawn(
                command[0], [*command, str(os.getpid())], os.environ, setsid=True, setsigmask=(), setsigdef=(signal.SIGCHLD,)
            )
        except OSError as error:
            raise AiflameError(f"no process could be started that keeps the ring short: {error.strerror}") from None

    def finish(self) -> None:
        """Waits until it has written the profiles that are due. Call it when the recording has been stopped."""
        until = time.monotonic() + _PATIENCE_S
        try:
            while time.monotonic() < until and not os.waitpid(self._pid, os.WNOHANG)[0]:
                time.sleep(0.01)
        except ChildProcessError:
            pass  # the program has waited for it itself


def main(whole: str, profile: str, program: str) -> None:
    folder = Folder.open(profile)
    meta = Meta.read(folder)
    options = RecordOptions(
        max_bytes=_number(meta, "max_bytes"),
        last_ms=_number(meta, "last_ms"),
        keep=_number(meta, "keep") or MOST_KEPT,
        on=_text(meta, "on"),
    )
    place = ProfileLocation(Path(whole), Path(profile), meta.job_rank)
    with ControlPage.open(folder) as page:
        flight = Flight(place, page, options, meta)
        while page.state != ControlState.STOPPED and os.getppid() == int(program):
            flight()
            time.sleep(_EVERY_S)
        flight.finish()


def _number(meta: Meta, name: str) -> int:
    value = meta.options.get(name)
    return value if isinstance(value, int) else 0


def _text(meta: Meta, name: str) -> str:
    value = meta.options.get(name)
    return value if isinstance(value, str) else ""
