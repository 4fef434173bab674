"""The command to record: does it exist, and can the collector be loaded into it?"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from aiflame.errors import AiflameError


class CommandError(AiflameError):
    """The command cannot be run; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def find(command: list[str]) -> Path:
    """The file that `command` runs."""
    name = command[0]
    folders = [""] if "/" in name else os.get_exec_path()
    for folder in folders:
        path = Path(folder, name)
        if path.is_file() and os.access(path, os.X_OK):
            return path
    path = Path(name)
    if "/" in name and path.is_dir():
        raise CommandError(f"{name} is a folder: name a program", 126)
    if "/" in name and path.exists():
        raise CommandError(f"{name} is not executable: chmod +x it, or put its interpreter in front", 126)
    raise CommandError(f"{name}: no such command: check its name and PATH", 127)


def obstacles(program: Path) -> list[str]:
    """Why the collector cannot enter `program` itself (its dynamically linked children may still be recorded)."""
    try:
        mode = program.stat().st_mode
        with program.open("rb") as file:
            head = file.read(64)
            if mode & (stat.S_ISUID | stat.S_ISGID) and os.geteuid() != 0:
                return [f"{program.name} is set-user-id: the system lets no library into it, so it is not recorded"]
            if head[:4] == b"\x7fELF":
                if head[4] != 2 or struct.unpack_from("<H", head, 18)[0] != 62:
                    return [f"{program.name} is not a 64-bit x86 program: it is not recorded"]
                if not _has_interpreter(head, file.read(4096 - 64)):
                    return [f"{program.name} is statically linked: nothing can be loaded into it, so only its children are recorded"]
    except OSError:
        pass  # unreadable but executable: the run itself will tell
    return []


def _has_interpreter(head: bytes, rest: bytes) -> bool:
    image = head + rest
    offset, entry_bytes, entries = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + entry_bytes * entries, len(image) - 4), entry_bytes or 1):
        if struct.unpack_from("<I", image, at)[0] == 3:  # PT_INTERP
            return True
    return False
