"""Writes captures into a file: frames with a head in JSON and the bytes of a launch (docs/intra.md)."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

MAGIC, VERSION = b"AFIC", 1
_HEAD = struct.Struct("<4sIIQ")


class CaptureWriter:
    """One process's file. It is created with the first frame and opened for each frame, since a program may close all its descriptors."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._left = folder, most_bytes
        self._process = os.getpid()

    def write(self, head: dict[str, Any], data: memoryview | bytes = b"") -> bool:
        """Appends a frame; False if it would exceed the limit."""
        if self._process != os.getpid():  # after a fork, the child writes its own file
            self._process = os.getpid()
        text = json.dumps(head, separators=(",", ":")).encode()
        size = len(data)
        if size > self._left:
            return False
        self._left -= size
        frame = b"".join((_HEAD.pack(MAGIC, VERSION, len(text), size), text))
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        with open(self._folder / f"{self._process}.captures", "ab", buffering=0, opener=_private) as out:
            out.write(frame)
            if size:
                out.write(data)
            out.write(bytes(-size % 8))
        return True


def _private(path: str, flags: int) -> int:
    """Makes the file readable only by its owner, like all files of a profile."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
