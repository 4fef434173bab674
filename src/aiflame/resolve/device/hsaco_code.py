"""Lines and instructions of sampled functions in AMD's code objects, as rows of `gpu_lines` and `gpu_instructions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.resolve.device import device_code, no_tool
from aiflame.resolve.device.cubin_lines import File
from aiflame.resolve.device.hsaco import MACHINE, STEP, Function, Hsaco
from aiflame.resolve.device.kernel_names import own_name, short_name
from aiflame.resolve.device.llvm_objdump import Code, Listing, disassemble, tools
from aiflame.resolve.names.readable import clean, readable
from aiflame.values import dataclass, field

_MACHINE_AT = 18
_LARGEST_LINE = 0xFFFF_FFFF


@dataclass(slots=True)
class HsacoCode:
    instructions: list[tuple[object, ...]] = field(default_factory=list)
    """crc, function, offset, text"""
    lines: list[tuple[object, ...]] = field(default_factory=list)
    """crc, function, offset, depth, name, file, line"""
    files: set[File] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def parted(folder: Folder, sampled: Iterable[tuple[int, str]]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The sampled functions (crc, name) that lie in code objects of AMD, and all others."""
    ours: dict[int, bool] = {}
    parts: tuple[list[tuple[int, str]], list[tuple[int, str]]] = [], []
    for crc, name in sampled:
        if crc not in ours:
            head = device_code.head(folder, crc)
            ours[crc] = int.from_bytes(head[_MACHINE_AT : _MACHINE_AT + 2], "little") == MACHINE
        parts[0 if ours[crc] else 1].append((crc, name))
    return parts


def read(
    folder: Folder,
    sampled: Sequence[tuple[int, str]],
    objdump: Sequence[Path] | None = None,
    progress: Callable[[float], None] = lambda share: None,
    *,
    lines: bool = True,
    apart: bool = True,
) -> HsacoCode:
    """`objdump`: copies of the disassembler; by default those on this machine. `apart`: another process reads debug information."""
    code = HsacoCode()
    if not sampled:
        return code
    sections: dict[int, Code] = {}
    functions: list[tuple[int, str, Hsaco, Function]] = []
    lost = 0
    for crc, name in sampled:
        if crc not in sections:
            hsaco = Hsaco.of_bytes(device_code.binary(folder, crc))
            if hsaco is not None:
                sections[crc] = Code(hsaco)
        function = sections[crc].hsaco.find(name) if crc in sections else None
        if function is None:
            lost += 1
            continue
        sections[crc].functions.append(function)
        functions.append((crc, name, sections[crc].hsaco, function))
    listings = dict(zip(sections, disassemble(list(sections.values()), tools() if objdump is None else objdump, progress), strict=True))
    unread = 0
    for crc, name, hsaco, function in functions:
        listing = {address: text for address, text in listings[crc].items() if function.covers(address)}
        unread += not listing
        code.instructions += [(crc, name, address - function.start, text) for address, text in sorted(listing.items())]
        if lines:
            _add_lines(code, crc, name, hsaco, function, listing, apart)
    if lost:
        code.notes.append(f"{lost} sampled functions could not be found in AMD's device code: they have no lines and no instructions")
    if unread:
        code.notes.append(no_tool.AMD)
    return code


def _add_lines(code: HsacoCode, crc: int, name: str, hsaco: Hsaco, function: Function, listing: Listing, apart: bool) -> None:
    addresses = sorted(listing) or range(function.start, function.start + function.size, STEP)
    names: dict[str, str] = {"": short_name(function.name)}
    for address, chain in zip(addresses, hsaco.chains(addresses, apart=apart), strict=True):
        for depth, place in enumerate(chain):
            if place.function not in names:
                names[place.function] = readable(own_name(place.function)).short
            code.files.add(place.file)
            line = min(place.line, _LARGEST_LINE)
            code.lines.append((crc, name, address - function.start, depth, names[place.function], clean(place.file.path), line))
