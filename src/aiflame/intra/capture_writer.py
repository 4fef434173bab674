"""Captures go into a file as they come: frames of a head in JSON and the bytes that a launch has left (docs/intra.md)."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

MAGIC, VERSION = b"AFIC", 1
_HEAD = struct.Struct("<4sIIQ")


class CaptureWriter:
    """One process's file. It is made with the first frame, and opened for each: a program may close every descriptor it finds."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._left = folder, most_bytes
        self._process = os.getpid()

    def write(self, head: dict[str, Any], data: memoryview | bytes = b"") -> bool:
        """False: the file has had all that it may take."""
        if self._process != os.getpid():  # the child of a fork has a file of its own
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
    """Its owner's alone, as all that lies in a profile."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
