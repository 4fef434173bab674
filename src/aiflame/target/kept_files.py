"""Writes files into the profile's folder `kept`, readable only by their owner, like all files of a profile."""

from __future__ import annotations

import os
from pathlib import Path


def write(profile: str, name: str, text: str) -> bool:
    """Writes a new file; False if the name exists."""
    folder = Path(profile) / "kept"
    folder.mkdir(0o700, exist_ok=True)
    try:
        with open(folder / name, "x", encoding="utf-8", opener=_private) as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
