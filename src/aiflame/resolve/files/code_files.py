"""Finds the files on this machine that contain the code that ran: a library may have been removed, replaced or stripped since.

They are tried in this order: the path as recorded, if it is still the same file; the file that the recorder held open; the copy in
PROFILE/binaries; and, for names and lines, its debug file. Files outside of the profile are read only through `outside.py`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.home import home
from aiflame.resolve.files.elf_file import ElfFile, NotElf
from aiflame.resolve.files.outside import Outside
from aiflame.values import dataclass

VDSO = "[vdso]"
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class Module:
    """The profile's record of a mapped file."""

    path: str
    build_id: bytes
    inode: int
    device: int
    seen: float
    """When it was mapped, in seconds since 1970; 0 if unknown."""

    @property
    def name(self) -> str:
        return self.path.removesuffix(_DELETED).rpartition("/")[2] or self.path


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a module; either may be missing."""

    binary: ElfFile | None
    debug: ElfFile | None

    def __enter__(self) -> Code:
        return self

    def __exit__(self, *_: object) -> None:
        for elf in (self.binary, self.debug):
            if elf:
                elf.close()


def find_code(module: Module, profile: Folder, outside: Outside) -> Code:
    if module.path.startswith(VDSO):
        return Code(_own_vdso(module), None)
    binary = next(_binaries(module, profile, outside), None)
    if binary and binary.line_bytes:
        return Code(binary, None)
    return Code(binary, next(_debug_files(module, binary, outside), None))


def code_with_build_id(path: str, build_id: bytes, outside: Outside, others: Sequence[Path] = ()) -> Code:
    """By the build id alone: the file of that path, or one of the others."""
    module = Module(path, build_id, 0, 0, 0)
    if path.startswith(VDSO):
        return Code(_own_vdso(module) or _with_build_id(build_id, others, outside), None)
    binary = _with_build_id(build_id, [Path(path.removesuffix(_DELETED)), *others], outside)
    return Code(binary, next(_debug_files(module, binary, outside), None))


def _with_build_id(build_id: bytes, paths: Sequence[Path], outside: Outside) -> ElfFile | None:
    return next((elf for path in paths if (elf := outside.elf(path)) and elf.build_id == build_id), None)


def is_missing(module: Module, code: Code) -> bool:
    """True if no code of a file was found here."""
    return not code.binary and not code.debug and module.path.startswith("/")


def why_missing(module: Module) -> str:
    """One line for people, about a file that was looked for."""
    path = module.path.removesuffix(_DELETED)
    why = "has changed since it was recorded" if Path(path).exists() else "is gone"
    return f"{path} {why}: its functions have no names"


def _binaries(module: Module, profile: Folder, outside: Outside) -> Iterator[ElfFile]:
    if elf := outside.elf(Path(module.path.removesuffix(_DELETED))):
        if module.build_id:
            if elf.build_id == module.build_id:
                yield elf
        elif not module.path.endswith(_DELETED) and _unchanged(elf, module) and elf.of_profile == outside.other_root:
            yield elf
    if (elf := outside.held(module.inode, module.device)) and elf.build_id == module.build_id:
        yield elf
    kept = profile.folder("binaries")
    there = [entry.name for entry in kept.entries() if entry.is_file]
    likely = (module.build_id.hex(), f"{module.inode}-{module.device}", *(name for name in there if name.startswith(f"{module.inode}-")))
    for name in dict.fromkeys(name for name in likely if name in there):
        with kept.file(name) as file:
            elf = ElfFile.of(file)
        if elf and elf.build_id == module.build_id:
            yield elf


def _unchanged(elf: ElfFile, module: Module) -> bool:
    """Without a build-id: true if it has the same inode, and was not written to since it was mapped."""
    status = elf.status()
    return status is not None and status.st_ino == module.inode and (not module.seen or status.st_mtime <= module.seen)


def _debug_files(module: Module, binary: ElfFile | None, outside: Outside) -> Iterator[ElfFile]:
    roots = outside.debug_roots
    if module.build_id:
        name = module.build_id.hex()
        for path in (*(root / ".build-id" / name[:2] / f"{name[2:]}.debug" for root in roots), *_downloaded(name)):
            if (elf := outside.elf(path)) and elf.build_id == module.build_id:
                yield elf
    if binary and binary.debug_link:
        folder = Path(module.path.removesuffix(_DELETED)).parent
        link = Path(binary.debug_link).name
        for path in (
            folder / link,
            folder / ".debug" / link,
            *(root / folder.relative_to("/") / link for root in roots if folder.is_absolute()),
        ):
            if (elf := outside.elf(path)) and _belongs(elf, binary):
                yield elf


def _belongs(debug: ElfFile, binary: ElfFile) -> bool:
    """By build-id, or by the checksum in the link."""
    if binary.build_id:
        return debug.build_id == binary.build_id
    data = binary.section_data(binary.section(".gnu_debuglink"))
    if len(data) < 4:
        return False
    check = at = 0
    while block := debug.read(at, 1 << 20):
        check, at = zlib.crc32(block, check), at + len(block)
    return check == int.from_bytes(data[-4:], "little")


def _downloaded(build_id: str) -> Iterator[Path]:
    """Files that debuginfod's clients have downloaded earlier; we download nothing."""
    here = home()
    cache = os.environ.get("XDG_CACHE_HOME") or (here and here / ".cache")
    for folder in (os.environ.get("DEBUGINFOD_CACHE_PATH"), cache and Path(cache) / "debuginfod_client"):
        if folder:
            yield Path(folder) / build_id / "debuginfo"


def _own_vdso(module: Module) -> ElfFile | None:
    """The kernel's page of this process, if it is the recorded one."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        low, high = next(line.split()[0].split("-") for line in lines if line.endswith(VDSO))
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            memory.seek(int(low, 16))
            elf = ElfFile(memory.read(int(high, 16) - int(low, 16)))
    except (OSError, NotElf, StopIteration, ValueError):
        return None
    return elf if module.build_id and elf.build_id == module.build_id else None
