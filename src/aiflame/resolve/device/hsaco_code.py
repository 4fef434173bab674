"""Lines and instructions of sampled functions in AMD's code objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.resolve.device import amdgcn, device_code, no_tool
from aiflame.resolve.device.code_rows import CodeRows
from aiflame.resolve.device.hsaco import STEP, Function, Hsaco
from aiflame.resolve.device.kernel_names import short_name
from aiflame.resolve.device.llvm_objdump import Code, Listing, disassemble, tools
from aiflame.resolve.device.triton_lines import TritonCache


def read(
    folder: Folder,
    sampled: Sequence[tuple[int, str]],
    triton: TritonCache,
    objdump: Sequence[Path] | None = None,
    progress: Callable[[float], None] = lambda share: None,
    *,
    lines: bool = True,
    apart: bool = True,
) -> CodeRows:
    """`triton`: assembly, for functions that no tool reads. `objdump`: copies of the disassembler; by default those on this machine.
    `apart`: another process reads debug information."""
    code = CodeRows()
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
        listing: Listing = {address: text for address, text in listings[crc].items() if function.covers(address)}
        listing = listing or amdgcn.texts(hsaco, function, triton)
        unread += not listing
        code.instructions += [(crc, name, address - function.start, text) for address, text in sorted(listing.items())]
        if lines:
            _add_lines(code, crc, name, hsaco, function, listing, apart)
    if lost:
        code.notes.append(f"{lost} sampled functions could not be found in AMD's device code: they have no lines and no instructions")
    if unread:
        code.notes.append(no_tool.AMD)
    return code


def _add_lines(code: CodeRows, crc: int, name: str, hsaco: Hsaco, function: Function, listing: Listing, apart: bool) -> None:
    addresses = sorted(listing) or range(function.start, function.start + function.size, STEP)
    holder = short_name(function.name)
    for address, chain in zip(addresses, hsaco.chains(addresses, apart=apart), strict=True):
        code.add_lines(crc, name, address - function.start, holder, chain)
