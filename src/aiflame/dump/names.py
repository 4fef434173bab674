"""Names of native functions, from the files that a process has mapped: as they are in its own container, and only if they are the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from aiflame.recorder.looks.modules import Module
from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.names.readable import clean, readable
from aiflame.resolve.native.elf_symbols import ElfSymbols

from .native_frames import NativeFrame
from .target import Target

VDSO = "[vdso]"
_DELETED = " (deleted)"


@contextmanager
def opened(target: Target, module: Module) -> Iterator[ElfFile | None]:
    """The file of a module, if it is still the one that is mapped."""
    elf = _open(target, module)
    try:
        yield elf
    finally:
        if elf is not None:
            elf.close()


def _open(target: Target, module: Module) -> ElfFile | None:
    if not module.path.startswith("/"):
        return None
    for path in (f"{target.root}{module.path}", f"/proc/{target.pid}/exe"):
        try:  # looked at before it is opened: opening a device may have effects
            before = Path(path).stat()
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(before.st_mode) or before.st_ino != module.inode:
            continue
        elf = ElfFile.open(Path(path))
        status = elf.status() if elf is not None else None
        if elf is not None and status is not None and status.st_ino == module.inode:
            return elf
    return None


def exported(elf: ElfFile, names: Iterable[bytes]) -> dict[bytes, int]:
    """The addresses of symbols that a file exports; those that it does not are left out."""
    table = elf.symbols(".dynsym")
    if table is None:
        return {}
    symbols, section = table
    texts = elf.section_data(section)
    addresses = {}
    for name in names:
        at = texts.find(b"\0" + name + b"\0")
        rows = np.flatnonzero(symbols["name"] == at + 1) if at >= 0 else np.zeros(0, np.int64)
        if len(rows) and int(symbols["section"][rows[0]]):
            addresses[name] = int(symbols["value"][rows[0]])
    return addresses


def name_frames(target: Target, frames: Iterable[NativeFrame]) -> dict[tuple[int, bool], str]:
    """The name of each frame, by its address and whether this is exact."""
    wanted: dict[Module, set[tuple[int, bool]]] = {}
    names: dict[tuple[int, bool], str] = {}
    for frame in frames:
        if frame.module is None:
            names[frame.pc, frame.exact] = "[JIT]"
        else:
            wanted.setdefault(frame.module, set()).add((frame.pc, frame.exact))
    for module, places in wanted.items():
        ordered = sorted(places)
        addresses = [max(pc - module.base - (not exact), 0) for pc, exact in ordered]
        array = np.array(addresses, np.uint64)
        with opened(target, module) as elf:
            functions = ElfSymbols(elf, near=np.sort(array)).lookup(array) if elf is not None else [None] * len(ordered)
        file = clean(module_name(module))
        for place, address, function in zip(ordered, addresses, functions, strict=True):
            start = function.start if function is not None else address
            named = function is not None and function.name
            names[place] = readable(function.name).short if function is not None and named else f"[unknown] {file}+0x{start:x}"
    return names


def module_name(module: Module | None) -> str:
    return os.fsdecode(os.fsencode(module.path.removesuffix(_DELETED).rpartition("/")[2])) if module is not None else ""
