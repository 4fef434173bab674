"""One window of a process: attaches, records for some seconds, and leaves. It runs in a child of the agent. Standard library alone."""

from __future__ import annotations

import os
from pathlib import Path

from aiflame.always.facts import facts_of
from aiflame.always.lines import tell
from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import FILE_NAME as CONTROL
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Recorder, start_ticks
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.recorder.attach.session import abandoned, attach
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.store.layout import WAITING
from aiflame.values import dataclass

PROFILE, DONE, RECORDER = "w.aiflame", "done", "recorder"
LEFT = b"left"
"""The text in the file `DONE` where the recording process was killed, so that nobody saw the end."""
MOST_BYTES = 32 << 20
"""If nobody ends the recording, since agent and child were killed, it ends when it has written so much."""
_LARGEST = 256


@dataclass(frozen=True, slots=True)
class Settings:
    seconds: float = 10.0
    cpu_rate: int = 49
    wall_rate: int = 0
    meaning: bool = True


def record(store: Folder, name: str, pid: int, ticks: int, settings: Settings) -> None:
    """AiflameError: the process cannot be recorded. Then nothing of the window stays."""
    waiting = store.folder(WAITING)
    folder = waiting.new_folder(name)
    try:
        folder.put(RECORDER, f"{os.getpid()}.{start_ticks(os.getpid())}".encode())
        facts = facts_of(pid)
        if facts is None or facts.start_ticks != ticks:
            raise AiflameError(f"process {pid} has ended")
        facts.write(folder)
        attach(
            pid,
            lambda _: _place(folder),
            options_of(settings),
            seconds=settings.seconds,
        )
        folder.put(DONE, b"")
    except BaseException:
        waiting.remove_tree(name)
        raise


def options_of(settings: Settings) -> RecordOptions:
    """Without GPUs: their libraries would hold launches back, and stay in the program with threads and memory."""
    return RecordOptions(
        cpu_rate=settings.cpu_rate,
        wall_rate=settings.wall_rate,
        waits=False,
        max_bytes=MOST_BYTES,
        children=False,
        opencl=False,
        cuda=False,
        rocm=False,
        gpu_sampling=GpuSampling.OFF,
        gpu_counters="off",
        meaning=settings.meaning,
        sources=False,
        telemetry_ms=0,
    )


def complete(store: Folder) -> int:
    """How many windows wait to be added."""
    waiting = store.folder(WAITING)
    return sum(waiting.has_file(name, DONE) for name in waiting.names())


def left_behind(store: Folder) -> list[str]:
    """Windows whose recording process was killed."""
    waiting = store.folder(WAITING)
    return [name for name in waiting.names() if not waiting.has_file(name, DONE) and not _recorded(waiting.folder(name))]


def close_left(store: Folder, names: list[str]) -> None:
    """Ends the recordings of these windows, so that they can be added like others. One that is damaged is removed, with a line."""
    waiting = store.folder(WAITING)
    for name in names:
        try:
            _close(waiting, name)
        except OSError as error:  # noqa: PERF203
            tell(f"window {name} cannot be ended now: {error.strerror or error}")
        except Exception as error:  # damaged files raise errors of many kinds
            tell(f"window {name} is damaged and is removed: {error}")
            waiting.remove_tree(name)


def _close(waiting: Folder, name: str) -> None:
    folder = waiting.folder(name)
    if not folder.has_file(PROFILE, CONTROL):  # nothing had begun
        waiting.remove_tree(name)
        return
    abandoned(_place(folder))
    folder.put(DONE, LEFT)


def _place(folder: Folder) -> ProfileLocation:
    path = Path(os.path.realpath(folder.path)) / PROFILE
    return ProfileLocation(path, path, speaks=False)


def _recorded(folder: Folder) -> bool:
    """The process that records it lives."""
    pid, _, ticks = (folder.read(RECORDER, limit=_LARGEST) or b"").decode("ascii", "replace").partition(".")
    return pid.isdecimal() and ticks.isdecimal() and Recorder(int(pid), int(ticks)).alive()
