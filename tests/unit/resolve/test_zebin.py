"""Zebins: their kernels, and the source lines of each instruction with inlined calls."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zebins import INTEL, line_of, rows, zebin

from aiflame.resolve.device.iga import offsets
from aiflame.resolve.device.zebin import Version, Zebin, ZebinFunction
from aiflame.resolve.device.zebin_lines import chains, linked
from aiflame.resolve.files.elf_file import ElfFile

LOADED = ["matmul.lnl.debug_info.elf", "matmul.pvc.debug_info.elf"]
COMPILED = ["matmul.lnl.zebin", "matmul.pvc.zebin", "matmul.bmg.zebin"]


def lines_at(code: Zebin, kernel: ZebinFunction, at: list[int]) -> list[int]:
    """The innermost line of each offset, 0: none."""
    answer = chains(code, [(kernel.section, offset) for offset in at])
    assert answer is not None
    return [chain[-1].line if chain else 0 for chain in answer]


def check(code: Zebin, kernel: ZebinFunction, sequence: list[tuple[int, int]]) -> None:
    """The line of each instruction is that of the last row before it."""
    first, behind = sequence[0][0], sequence[-1][0]
    at = [offset for offset in offsets(code.code(kernel.section)) if offset < behind - first]
    wanted = [next(line for address, line in reversed(sequence[:-1]) if address - first <= offset) for offset in at]
    assert len(set(wanted)) > 3
    assert lines_at(code, kernel, at) == wanted
    assert lines_at(code, kernel, [behind - first]) == [0], "behind the code is padding"


@pytest.mark.parametrize("name", [*LOADED, *COMPILED])
def test_lines_are_those_of_llvm_dwarfdump(name: str) -> None:
    """The second kernel of Ponte Vecchio's file has no symbol to which its debug information refers, so llvm-dwarfdump puts it at 0."""
    code = zebin(name)
    for kernel, sequence in zip(code.kernels, rows(".".join(name.split(".")[:2])), strict=True):
        check(code, kernel, sequence)


@pytest.mark.parametrize("name", ["three.pvc", "three.ptl"])
def test_lines_of_three_kernels_in_one_module(name: str) -> None:
    code = zebin(f"{name}.zebin")
    assert [kernel.name for kernel in code.kernels] == ["first", "second", "third"]
    for kernel, sequence in zip(code.kernels, rows(name), strict=True):
        check(code, kernel, sequence)


@pytest.mark.parametrize("name", [*LOADED, *COMPILED, "matmul.lnl.opencl_debug_info.elf"])
def test_an_inlined_call_has_its_name_and_the_line_of_the_call(name: str) -> None:
    code = zebin(name)
    kernel = code.find("matmul")
    assert kernel
    answer = chains(code, [(kernel.section, offset) for offset in offsets(code.code(kernel.section))])
    assert answer
    inlined = {tuple((place.function, place.line) for place in chain) for chain in answer if len(chain) > 1}
    assert inlined == {(("", line_of("matmul.cl", "sum += dot_tile")), ("dot_tile", line_of("matmul.cl", "sum = fma")))}
    file = "1" if "opencl" in name else "matmul.cl"
    assert {place.file.path.rpartition("/")[2] for chain in answer for place in chain} == {file}


def test_loaded_kernels_are_found_by_the_low_half_of_their_address() -> None:
    code = zebin("matmul.lnl.debug_info.elf")
    matmul, scale = code.kernels
    assert [hex(code.address(kernel)) for kernel in code.kernels] == ["0xffff8001fffe5000", "0xffff8001fffe5800"]
    assert (matmul.size, scale.size) == (0x740, 0x2C0)
    assert code.at(0xFFFE5000) == (matmul, 0) and code.at(0xFFFF8001FFFE5000) == (matmul, 0)
    assert code.at(0xFFFE573F) == (matmul, 0x73F) and code.at(0xFFFE5740) is None
    assert code.at(0xFFFE5810) == (scale, 0x10) and code.at(0xFFFE4FF8) is None


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("matmul.lnl.zebin", Version(20, 4)),
        ("matmul.pvc.zebin", Version(12, 60)),
        ("three.ptl.zebin", Version(30, 0)),
        ("matmul.bmg.zebin", Version(20, 1)),
        ("matmul.pvc_old.zebin", Version(12, 60)),
    ],
)
def test_it_says_for_which_gpu_it_was_compiled(name: str, version: Version) -> None:
    assert zebin(name).version == version


def test_a_kernel_has_its_functions_by_their_symbols() -> None:
    code = zebin("three.pvc.zebin")
    assert [[(one.name, one.start) for one in code.inside(kernel.section)] for kernel in code.kernels] == [
        [("first", 0)],
        [("second", 0)],
        [("third", 0)],
    ]


def test_without_debug_information_there_are_no_lines() -> None:
    code = zebin("matmul.pvc_old.zebin")
    assert [kernel.name for kernel in code.kernels] == ["matmul", "scale"]
    assert linked(code) is None
    assert chains(code, [(code.kernels[0].section, 0)]) == [()]


def test_a_name_longer_than_a_section_s_is_read_is_that_of_its_symbol() -> None:
    """SYCL's kernels have long ones."""
    long = b"_ZTS" + b"x" * 500
    data = bytearray(zebin("matmul.lnl.zebin").content)
    elf = ElfFile(bytes(data))
    strings, table = elf.section(".strtab"), elf.section(".symtab")
    headers = struct.unpack_from("<Q", data, 40)[0]
    assert strings and table
    number = [section.name for section in elf.sections].index(".strtab")
    texts = elf.section_data(strings) + b"\0.text." + long + b"\0"
    struct.pack_into("<QQ", data, headers + number * 64 + 24, len(data), len(texts))
    at = strings.size + 1
    code = next(place for place, section in enumerate(elf.sections) if section.name == ".text.matmul")
    struct.pack_into("<I", data, headers + code * 64, at)
    symbols = [table.offset + row for row in range(0, table.size, 24)]
    symbol = next(place for place in symbols if elf.text(strings, struct.unpack_from("<I", data, place)[0]) == "matmul")
    struct.pack_into("<I", data, symbol, at + len(".text."))
    renamed = Zebin(bytes(data) + texts)
    assert renamed.find(long.decode()) and not renamed.find("matmul")


def test_sections_are_read_as_far_as_the_file_and_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may say that each of its sections is the whole memory."""
    data = bytearray(zebin("matmul.lnl.zebin").content)
    headers = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, headers + 1 * 64 + 32, 1 << 62)
    (offset,) = struct.unpack_from("<Q", data, headers + 1 * 64 + 24)
    whole = Zebin(bytes(data))
    assert whole.kernels[0].size == len(whole.code(1)) == len(data) - offset
    monkeypatch.setattr("aiflame.resolve.device.zebin.LARGEST_KERNEL", 100)
    assert {kernel.size for kernel in Zebin(bytes(data)).kernels} == {100}
    struct.pack_into("<Q", data, headers + 1 * 64 + 24, 1 << 62)
    assert [kernel.name for kernel in Zebin(bytes(data)).kernels] == ["scale"]


def test_code_that_no_driver_places_so_far_apart_has_no_lines() -> None:
    data = bytearray(zebin("matmul.lnl.debug_info.elf").content)
    headers = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, headers + 2 * 64 + 16, 0x1000)
    moved = Zebin(bytes(data))
    assert chains(moved, [(1, 0), (2, 0)], apart=False) == [(), ()]


def test_other_files_are_no_zebins() -> None:
    assert Zebin.of_bytes(b"") is None and Zebin.of_bytes(None) is None
    assert Zebin.of_bytes((INTEL.parent / "lines.cubin").read_bytes()) is None


@given(st.data())
def test_damaged_files_are_read_so_far(data: st.DataObject) -> None:
    content = bytearray(zebin("matmul.pvc.zebin").content)
    for _ in range(data.draw(st.integers(1, 20))):
        at = data.draw(st.one_of(st.integers(0, 63), st.integers(len(content) - 2000, len(content) - 1), st.integers(0, len(content) - 1)))
        content[at] = data.draw(st.integers(0, 255))
    code = Zebin.of_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    if code is not None:
        assert code.at(0x1234) is None or code.kernels
        linked(code)
        assert all(one.size for kernel in code.kernels for one in code.inside(kernel.section))
        assert code.version.architecture >= 0
