"""Asks the recorder of a running ring to keep its window, by the id of any process of the recording or of the recorder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.spool.living import VARIABLE
from aiflame.recorder.ring import requests
from aiflame.recorder.ring.snapshot import REQUESTS

_PATIENCE_S = 20.0


def keep(pid: int, reason: str, patience_s: float = _PATIENCE_S) -> str:
    """The path of the profile with the window that ends now."""
    now = time.monotonic_ns()
    ring = ring_of(pid)
    name = f"{os.getpid()}-{now}"
    try:
        requests.ask(ring, reason, now, name)
    except OSError as error:
        raise AiflameError(f"{ring.path} cannot be written to: {error.strerror}") from None
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if (answer := requests.take_answer(ring, name)) is not None:
            if answer.startswith("!"):
                raise AiflameError(f"the window could not be kept: {answer[1:]}")
            return answer
        if not Meta.read(ring).recorder.alive():
            raise AiflameError(f"the recorder of {ring.path} is gone: open {ring.path}, it has the last events before that")
        time.sleep(0.05)
    raise AiflameError(f"the recorder of {ring.path} has not answered for {patience_s:g} s: is it stopped?")


def ring_of(pid: int) -> Folder:
    """The ring that records a process."""
    if not Path(f"/proc/{pid}").exists():
        raise AiflameError(f"there is no process {pid}")
    try:
        paths = [path for one in (pid, *_children(pid)) if (path := _recorded_into(one))]
    except PermissionError:
        raise AiflameError(f"process {pid} belongs to another user: ask as that user") from None
    if not paths:
        raise AiflameError(f"process {pid} is not being recorded: start it by aiflame record --last 2m -- COMMAND")
    try:
        ring = Folder.open(paths[0])
    except OSError as error:
        raise AiflameError(f"{paths[0]} cannot be opened: {error.strerror}") from None
    if not ring.has_folder(REQUESTS):
        raise AiflameError(f"process {pid} is being recorded from its start, not into a ring: --last 2m makes one")
    return ring


def _recorded_into(pid: int) -> str:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((os.fsdecode(one[len(VARIABLE) :]) for one in environment.split(b"\0") if one.startswith(VARIABLE)), "")


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
