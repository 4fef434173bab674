"""Lines and instructions of sampled kernels of Intel's GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.resolve.device import device_code, no_tool
from aiflame.resolve.device.code_rows import CodeRows
from aiflame.resolve.device.iga import IntelCode, disassemble, libraries
from aiflame.resolve.device.kernel_names import short_name
from aiflame.resolve.device.zebin import Zebin, ZebinFunction
from aiflame.resolve.device.zebin_lines import chains

MOST_CODE = 64 << 20
"""Bytes of all sampled kernels of a profile that are read."""


def read(
    folder: Folder, sampled: Sequence[tuple[int, str]], iga: Sequence[Path] | None = None, *, lines: bool = True, apart: bool = True
) -> CodeRows:
    """`iga`: copies of the disassembler; by default those on this machine. `apart`: another process reads debug information."""
    rows = CodeRows()
    files: dict[int, Zebin | None] = {}
    kernels: list[tuple[int, Zebin, ZebinFunction]] = []
    lost, room = 0, MOST_CODE
    for crc, name in sampled:
        if crc not in files:
            files[crc] = Zebin.of_bytes(device_code.binary(folder, crc))
        file = files[crc]
        kernel = file.find(name) if file is not None else None
        room -= kernel.size if kernel is not None else 0
        if file is None or kernel is None or room < 0:
            lost += 1
        else:
            kernels.append((crc, file, kernel))
    codes = [IntelCode(file.version, file.code(kernel.section)) for _, file, kernel in kernels]
    listings, opcodes_alone = disassemble(codes, libraries() if iga is None else iga)
    unread = 0
    for (crc, file, kernel), listing in zip(kernels, listings, strict=True):
        end = file.end(kernel.section) or kernel.size
        instructions = [one for one in listing if one.offset < end]
        rows.instructions += [(crc, kernel.name, one.offset, one.text) for one in instructions]
        if lines:
            unread += not _add_lines(rows, crc, file, kernel, [one.offset for one in instructions], apart)
    if lost:
        rows.notes.append(
            f"{lost} sampled functions could not be found in Intel's device code, or are too large: they have no lines and no instructions"
        )
    if unread:
        rows.notes.append(f"the debug information of {unread} sampled kernels of Intel's GPUs could not be read: they have no lines")
    if opcodes_alone:
        rows.notes.append(no_tool.INTEL)
    return rows


def _add_lines(rows: CodeRows, crc: int, file: Zebin, kernel: ZebinFunction, offsets: list[int], apart: bool) -> bool:
    """False if its debug information cannot be read."""
    answers = chains(file, [(kernel.section, offset) for offset in offsets], apart=apart)
    if answers is None:
        return False
    inside, own = file.inside(kernel.section), short_name(kernel.name)
    for offset, chain in zip(offsets, answers, strict=True):
        holder = next((function.name for function in reversed(inside) if function.covers(offset)), kernel.name)
        name = own if holder == kernel.name else rows.inner_name(holder)
        rows.add_lines(crc, kernel.name, offset, name, chain)
    return True
