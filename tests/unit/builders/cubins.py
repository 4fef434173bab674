"""The cubins of tests/unit/data, damaged in every way; a stand-in for nvdisasm."""

from __future__ import annotations

import struct
from pathlib import Path

from aiflame.resolve.files.elf_file import ElfFile

DATA = Path(__file__).parents[1] / "data"
SCALE = "_Z5scaleIfLi4EEvPT_i"
"""A kernel of kernels.cu."""


def cubin(name: str) -> bytes:
    return (DATA / f"{name}.cubin").read_bytes()


def without(data: bytes, *names: str) -> bytes:
    """The file with these sections empty, as `strip` leaves a cubin."""
    changed = bytearray(data)
    table = struct.unpack_from("<Q", data, 40)[0]
    for index, section in enumerate(ElfFile(data).sections):
        if section.name in names:
            struct.pack_into("<Q", changed, table + 64 * index + 32, 0)
    return bytes(changed)


def line_of(source: str, text: str) -> int:
    """The number of the line that contains a text, alone in the file."""
    lines = (DATA / source).read_text().splitlines()
    (number_of_line,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number_of_line


def fake_nvdisasm(folder: Path, body: str) -> Path:
    """A program in the place of nvdisasm: Python, given the path of the file as `path`."""
    tool = folder / "nvdisasm"
    tool.write_text(f"#!/usr/bin/env python3\nimport sys, time\npath = sys.argv[-1]\n{body}\n")
    tool.chmod(0o755)
    return tool
