"""Checks the command to record: whether it exists, and whether the collector can be loaded into it."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from aiflame.errors import AiflameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


class CommandError(AiflameError):
    """The command cannot be run; `status` is the exit status that a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def find(command: list[str]) -> Path:
    """The file that `command` runs."""
    name = command[0]
    folders = [""] if "/" in name else os.get_exec_path()
    for folder in folders:
        path = Path(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113  false, too, in a folder that cannot be searched
            return path
    if "/" in name and os.path.isdir(name):  # noqa: PTH112
        raise CommandError(f"{name} is a folder: name a program", 126)
    if "/" in name and os.path.exists(name):  # noqa: PTH110
        raise CommandError(f"{name} is not executable: chmod +x it, or put its interpreter in front", 126)
    raise CommandError(f"{name}: no such command: check its name and PATH", 127)


def obstacles(program: Path) -> list[str]:
    """Reasons why the collector cannot be loaded into `program` itself (its dynamically linked children may still be recorded)."""
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
        pass  # unreadable but executable: running it shows more
    return []


_SANITIZERS = ("libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libubsan.so", "libclang_rt.")


def is_sanitizer(library: str) -> bool:
    """True if a library file is a sanitizer's runtime, which ends the program unless it is loaded before all others."""
    return library.rpartition("/")[2].startswith(_SANITIZERS)


def first_library(program: Path) -> str:
    """The sanitizer's runtime with which `program` is linked, by the name that the dynamic linker looks up; empty: none.

    `native/hooks/libc/new_program.cpp` does the same for the programs that this one starts."""
    try:
        with program.open("rb") as file:
            head = file.read(4096)
            if head[:2] == b"#!":
                words = head[2:].split(b"\n", 1)[0].split()
                return first_library(Path(os.fsdecode(words[0]))) if words else ""
            return next((name for name in _needed(file, head) if is_sanitizer(name)), "")
    except (OSError, struct.error, RecursionError):
        return ""


def _needed(file: BinaryIO, head: bytes) -> list[str]:
    """The first two libraries that an ELF file needs: compilers put such a runtime before all others."""
    if head[:5] != b"\x7fELF\x02":
        return []
    offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    segments = [struct.unpack_from("<IIQQQQ", head, offset + size * at) for at in range(count)]
    dynamic = next((segment for segment in segments if segment[0] == 2), None)  # PT_DYNAMIC
    if dynamic is None:
        return []
    file.seek(dynamic[2])
    entries = list(struct.iter_unpack("<QQ", file.read(min(dynamic[5], 768) // 16 * 16)))
    table = next((value for tag, value in entries if tag == 5), 0)  # DT_STRTAB
    place = next((table - begin + at for kind, _, at, begin, _, length in segments if kind == 1 and 0 <= table - begin < length), None)
    names = []
    for needed in [value for tag, value in entries if tag == 1][:2] if place is not None else ():  # DT_NEEDED
        file.seek(place + needed)
        names.append(os.fsdecode(file.read(64).partition(b"\0")[0]))
    return names


def _has_interpreter(head: bytes, more: bytes) -> bool:
    image = head + more
    offset, entry_bytes, entries = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + entry_bytes * entries, len(image) - 4), entry_bytes or 1):
        if struct.unpack_from("<I", image, at)[0] == 3:  # PT_INTERP
            return True
    return False
