"""Lines and instructions of sampled functions, as rows of `gpu_lines` and `gpu_instructions`."""

from __future__ import annotations

from collections.abc import Iterable

from aiflame.profile.folder.door import Folder
from aiflame.resolve.device import device_code
from aiflame.resolve.device.cubin_lines import Chain, File
from aiflame.resolve.device.kernel_names import own_name
from aiflame.resolve.names.readable import clean, readable
from aiflame.values import dataclass, field

_MACHINE_AT = 18
_LARGEST_LINE = 0xFFFF_FFFF


@dataclass(slots=True)
class CodeRows:
    instructions: list[tuple[object, ...]] = field(default_factory=list)
    """crc, function, offset, text"""
    lines: list[tuple[object, ...]] = field(default_factory=list)
    """crc, function, offset, depth, name, file, line"""
    files: set[File] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def add_lines(self, crc: int, kernel: str, offset: int, holder: str, chain: Chain) -> None:
        """The chain at an instruction of a kernel; `holder`: the readable name of the function in which it lies."""
        for depth, place in enumerate(chain):
            name = self.inner_name(place.function) if depth else holder
            self.files.add(place.file)
            self.lines.append((crc, kernel, offset, depth, name, clean(place.file.path), min(place.line, _LARGEST_LINE)))

    def inner_name(self, raw: str) -> str:
        """The short name of a function that a kernel calls."""
        if raw not in self._names:
            self._names[raw] = readable(own_name(raw)).short
        return self._names[raw]

    def add(self, other: CodeRows) -> None:
        self.instructions += other.instructions
        self.lines += other.lines
        self.files |= other.files
        self.notes += other.notes


def parted(folder: Folder, sampled: Iterable[tuple[int, str]], machine: int) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The sampled functions (crc, name) that lie in ELF files for this machine, and all others."""
    ours: dict[int, bool] = {}
    parts: tuple[list[tuple[int, str]], list[tuple[int, str]]] = [], []
    for crc, name in sampled:
        if crc not in ours:
            head = device_code.head(folder, crc)
            ours[crc] = int.from_bytes(head[_MACHINE_AT : _MACHINE_AT + 2], "little") == machine
        parts[0 if ours[crc] else 1].append((crc, name))
    return parts
