"""Files that the recorder held open and passed to the sealer, since they may be gone by then: libraries in temporary folders, and the root
folder of a program in a container."""

from __future__ import annotations

import os
from collections.abc import Mapping

from aiflame.profile.folder.other_root import ROOT
from aiflame.resolve.files.elf_file import ElfFile

_held: dict[str, int] = {}


def take(held: Mapping[str, str]) -> None:
    """INODE-DEVICE → descriptor, with the recorder's names."""
    _held.update((name, int(descriptor)) for name, descriptor in held.items() if descriptor.isdecimal())


def root() -> int | None:
    """The root folder of the program, where it is not ours; None: the recorder did not pass it."""
    return _held.get(ROOT)


def elf(inode: int, device: int) -> ElfFile | None:
    if (descriptor := _held.get(f"{inode}-{device}")) is None:
        return None
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return ElfFile.of(file)
    except OSError:
        return None
