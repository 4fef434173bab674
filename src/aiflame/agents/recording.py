"""The tool `record`: runs a command that the server's user has allowed under `aiflame record`, for a limited time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aiflame.agents.access import Access
from aiflame.agents.query import PACKAGES
from aiflame.errors import AiflameError
from aiflame.profile.opening import SUFFIX
from aiflame.recorder.intra import PRESETS

_PROGRAM = (
    "import ctypes, sys; ctypes.CDLL(None).prctl(1, 15); "
    f"sys.path[:1] = []; sys.path.append({PACKAGES!r}); from aiflame.cli.main import main; sys.exit(main())"
)
"""PR_SET_PDEATHSIG: the recorder gets SIGTERM when the server ends. The current folder is not searched for modules."""
_TAIL = 2000
"""Bytes of the program's output that an answer shows."""
_PIECE = 4096
_GRACE_S = 10.0
MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Recorded:
    path: Path
    status: int
    seconds: float
    cut: bool
    """It was interrupted because its time was up."""
    output: str
    """The end of the program's output."""


def record(access: Access, command: Sequence[str], name: str, seconds: float, *, wall: bool, intra: str) -> Recorded:
    if not command:
        raise AiflameError("record needs a command: a list of words, the program first")
    access.refuse_command(command)
    if intra and intra not in PRESETS:
        raise AiflameError(f"intra is one of {', '.join(PRESETS)}")
    folder = access.folders[0]
    path = folder / _profile_name(name, command[0])
    if path.exists():
        raise AiflameError(f"{path.name} exists: choose another name")
    options = ["--wall"] * wall + [f"--intra={intra}"] * bool(intra)
    began = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, "record", "-o", str(path), *options, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        start_new_session=True,
    )
    assert child.stdout is not None
    tail = bytearray()
    reader = threading.Thread(target=_read, args=(child.stdout, tail), daemon=True)
    reader.start()
    cut = _wait(child, min(max(seconds, 1.0), MOST_SECONDS))
    reader.join(1.0)
    output = tail.decode("utf-8", "replace")
    if not path.exists():
        raise AiflameError(f"nothing recorded: {output.strip() or f'the recorder ended with status {child.returncode}'}")
    return Recorded(path, child.returncode, time.monotonic() - began, cut, output)


def _profile_name(name: str, program: str) -> str:
    """The profile's name, without a folder."""
    chosen = name.removesuffix(SUFFIX) or f"{Path(program).name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not re.fullmatch(r"\w[\w.-]{0,99}", chosen):
        if name:
            raise AiflameError("the profile's name may have letters, digits, dots, hyphens and underscores, and no folder: run-1")
        chosen = re.sub(r"[^\w.-]", "_", f"run-{chosen}")[:100]
    return chosen + SUFFIX


def _read(stream: IO[bytes], tail: bytearray) -> None:
    """Reads to the end of the stream, and keeps its last bytes."""
    while piece := os.read(stream.fileno(), _PIECE):
        tail += piece
        del tail[:-_TAIL]


def _wait(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for the end; True if the child had to be interrupted."""
    try:
        child.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        pass
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        os.killpg(child.pid, number)
        try:
            child.wait(_GRACE_S)
            break
        except subprocess.TimeoutExpired:
            continue
    return True
