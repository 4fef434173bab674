"""Binaries that a stranger put into a profile: no size in them is believed, and a damaged one does not end the command that reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hostile_elf import CODE, Part, elf, line_program, nested, packed, symbols
from little_memory import said

from aiflame.profile.folder.door import Folder
from aiflame.resolve.files.code_files import Code
from aiflame.resolve.files.elf_file import LONGEST_NAME, ElfFile
from aiflame.resolve.native.debug_lines import too_much
from aiflame.resolve.native.lookup import look_up

READ = """
import sys
import numpy as np
from aiflame.profile.folder.door import Folder
from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.files.code_files import Code
from aiflame.resolve.native.lookup import look_up
limit()
with Folder.open(sys.argv[1]).file("x") as file:
    found, note = look_up("libx.so", Code(ElfFile.of(file), None), np.array([4096 + 4], np.uint64))
print(len(found[0].chain), max([0, *(len(place.name) for place in found[0].chain)]), note)
"""
NAMED = symbols(b"\0f\0", [(1, CODE, 64)])
MB = 1 << 20


def answer(folder: Path, parts: Mapping[str, Part], megabytes: int = 1024) -> tuple[int, int, str]:
    """The number of functions that an address has, the length of their longest name, and the notes."""
    (folder / "x").write_bytes(elf(parts))
    functions, longest, note = said(READ, folder, megabytes=megabytes).rstrip("\n").split(" ", 2)
    return int(functions), int(longest), note


def test_a_sound_file_has_functions_and_their_inlined_calls(tmp_path: Path) -> None:
    assert answer(tmp_path, {**NAMED, **nested(3)}) == (3, 5, "")


def long_names() -> dict[str, Part]:
    """A table of strings without an end, and sections with names as long as all of it."""
    names = b"n" * (100 * MB)
    sections = {f".{number}{'s' * 200}": Part(b"") for number in range(200)}
    return {**symbols(names, [(number, CODE, 64) for number in range(300)]), **sections}


def says_more_than_there_is() -> dict[str, Part]:
    return {name: Part(part.data, part.kind, part.flags, 1 << 62, part.link) for name, part in NAMED.items()}


@pytest.mark.parametrize("make", [long_names, says_more_than_there_is], ids=lambda make: make.__name__)
def test_names_and_tables_are_read_so_far(tmp_path: Path, make: Callable[[], dict[str, Part]]) -> None:
    functions, longest, _ = answer(tmp_path, make())
    assert functions == 1
    assert longest <= LONGEST_NAME


CANNOT = "libx.so has debug information that cannot be read: its frames have no lines"


@pytest.mark.parametrize("depth", [100_000, 1_000_000])
def test_functions_in_functions_without_end_end_no_command(tmp_path: Path, depth: int) -> None:
    assert answer(tmp_path, {**NAMED, **nested(depth)}) == (1, 1, CANNOT)


def test_a_long_program_of_lines_is_read_elsewhere(tmp_path: Path) -> None:
    parts = {**NAMED, **nested(1), ".debug_line": Part(line_program(b"\x14" * (16 * MB)))}
    assert answer(tmp_path, parts, megabytes=256) == (2, 5, "")


UNPACK_TO_MORE: Mapping[str, Callable[[], Part]] = {
    "says": lambda: packed(b"x", says=1 << 40),
    "does": cache(lambda: packed(b"x" * (400 * MB))),
    "old": lambda: Part(b"ZLIB" + (1 << 60).to_bytes(8, "big") + b"x"),
}


@pytest.mark.parametrize("section", [".debug_info", ".debug_line", ".debug_str", ".debug_abbrev"])
@pytest.mark.parametrize("part", UNPACK_TO_MORE)
def test_debug_information_that_unpacks_to_far_more_is_left_out(tmp_path: Path, section: str, part: str) -> None:
    functions, _, note = answer(tmp_path, {**NAMED, **nested(1), section: UNPACK_TO_MORE[part]()})
    assert functions == 1
    assert re.fullmatch(r"libx.so has [\d,]+ MB of debug information, too much to read: its frames have no lines", note)


def test_real_debug_information_is_not_too_much(tmp_path: Path) -> None:
    parts = {**NAMED, **nested(1000)}
    packed_parts = {name: packed(part.data) if name.startswith(".debug") else part for name, part in parts.items()}
    for sections in (parts, packed_parts):
        (tmp_path / "x").write_bytes(elf(sections))
        file = ElfFile.open(tmp_path / "x")
        assert file is not None
        assert too_much(file) == ""


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_damaged_debug_information_is_an_answer_all_the_same(tmp_path: Path, part: int) -> None:
    parts = {**NAMED, **nested(3)}
    name = [name for name in parts if name.startswith(".debug")][part]
    for seed in range(3):
        data = bytearray(parts[name].data)
        data[seed % len(data)] ^= 0xFF
        (tmp_path / "x").write_bytes(elf({**parts, name: Part(bytes(data))}))
        with Folder.open(tmp_path).file("x") as file:
            names, _ = look_up("libx.so", Code(ElfFile.of(file), None), np.array([CODE + 4], np.uint64))
        assert names[0].chain[0].name == "f"
