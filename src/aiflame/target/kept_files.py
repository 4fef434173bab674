"""Files that the program leaves in the profile's folder `kept`: its owner's alone, as all that lies in a profile."""

from __future__ import annotations

import os
from pathlib import Path


def write(profile: str, name: str, text: str) -> bool:
    """False when there is a file of that name."""
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
