"""Libraries in temporary folders that the recorder held open and passed to the sealer, since they may be removed by then."""

from __future__ import annotations

import os
from collections.abc import Mapping

from aiflame.resolve.files.elf_file import ElfFile

_held: dict[str, int] = {}


def take(held: Mapping[str, str]) -> None:
    """INODE-DEVICE → descriptor, with the recorder's names."""
    _held.update((name, int(descriptor)) for name, descriptor in held.items() if descriptor.isdecimal())


def elf(inode: int, device: int) -> ElfFile | None:
    if (descriptor := _held.get(f"{inode}-{device}")) is None:
        return None
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return ElfFile.of(file)
    except OSError:
        return None
