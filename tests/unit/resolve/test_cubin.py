"""Cubins: their functions, and the source lines of each instruction with inlined calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubins import DATA, SCALE, cubin, line_of, without
from hypothesis import given
from hypothesis import strategies as st

from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_lines import CubinLines
from aiflame.resolve.files.elf_file import NotElf


def lines(data: bytes, name: str) -> list[list[tuple[str, str, int]]]:
    """For each instruction of a function its chain: (function, file name, line), outermost first."""
    code = Cubin(data)
    function = code.find(name)
    assert function
    table = CubinLines(code)
    chains = [table.chain(function.section, address) for address in range(function.start, function.start + function.size, 16)]
    return [[(place.function, Path(place.file.path).name, place.line) for place in chain] for chain in chains]


def distinct(chains: list[list[tuple[str, str, int]]]) -> list[list[tuple[str, str, int]]]:
    return [chain for place, chain in enumerate(chains) if place == 0 or chain != chains[place - 1]]


def test_a_kernel_is_found_by_the_name_that_samples_carry():
    function = Cubin(cubin("lines")).find(SCALE)
    assert function and (function.start, function.size) == (0, 512)


def test_a_function_called_in_a_kernel_lies_behind_it_in_its_section():
    code = Cubin(cubin("lines"))
    outer, inner = code.find("outer"), code.find("$outer$_Z9slow_partfi")
    assert outer and inner
    assert inner.section == outer.section and inner.start > 0
    assert [function.name for function in code.inside(outer.section)] == ["outer", "$outer$_Z9slow_partfi"]


def test_a_function_that_the_cubin_lacks_is_not_found():
    assert Cubin(cubin("lines")).find("other") is None


def test_inlined_calls_come_with_their_names_and_the_lines_of_the_calls():
    call, first, second = line_of("kernels.cu", "norm(data + at)"), line_of("kernels.cu", "sum = sq"), line_of("kernels.cu", "sum += sq")
    product, root = line_of("kernels.cu", "x * x;"), line_of("kernels.cu", "rsqrtf")
    chains = distinct(lines(cubin("lines"), SCALE))
    assert chains[0] == [("", "kernels.cu", line_of("kernels.cu", "__global__ void scale(T"))]
    kernel, norm = ("", "kernels.cu", call), "_Z4normPKf"
    assert [kernel, (norm, "kernels.cu", first)] in chains
    assert [kernel, (norm, "kernels.cu", second), ("_Z6squareIfET_S0_", "kernels.cu", product)] in chains
    assert [kernel, (norm, "kernels.cu", root)] in chains


def test_the_second_function_of_a_table_counts_its_calls_anew():
    """A context is a row of the same sequence."""
    loop, product = line_of("kernels.cu", "x * 1.5f"), line_of("kernels.cu", "x * x;")
    assert [("", "kernels.cu", loop), ("_Z6squareIfET_S0_", "kernels.cu", product)] in lines(cubin("lines"), "$outer$_Z9slow_partfi")


def test_files_have_their_folder_and_the_size_they_had():
    code = Cubin(cubin("lines"))
    scale = code.find(SCALE)
    assert scale is not None
    (place,) = CubinLines(code).chain(scale.section, 0)
    assert place.file.path == "/tmp/aiflame-kernels/kernels.cu"
    assert place.file.bytes == (DATA / "kernels.cu").stat().st_size


def test_a_triton_kernel_has_the_lines_of_its_python_file_and_of_the_library():
    places = {(file, line) for chain in lines(cubin("softmax"), "softmax") for _, file, line in chain}
    assert ("softmax.py", line_of("softmax.py", "x = tl.load")) in places
    assert ("softmax.py", line_of("softmax.py", "y = tl.exp")) in places
    assert any(file == "standard.py" for file, _ in places)


@pytest.mark.parametrize(("name", "file", "line"), [("near", "near.cu", "= far_away"), ("_Z8far_awayf", "far.cu", "/ 3.0f")])
def test_linked_code_of_several_files_keeps_the_lines_of_each(name: str, file: str, line: str):
    assert [("", file, line_of(file, line))] in lines(cubin("linked"), name)


def test_without_a_line_table_there_are_no_lines():
    assert set(map(len, lines(cubin("plain"), "outer"))) == {0}


def test_a_stripped_cubin_has_its_kernels_by_their_sections():
    data = without(cubin("lines"), ".symtab", ".strtab", ".debug_line", ".debug_str")
    function = Cubin(data).find(SCALE)
    assert function and function.size == 512
    assert set(map(len, lines(data, SCALE))) == {0}


def test_without_names_inlined_calls_keep_their_lines():
    product = line_of("kernels.cu", "x * x;")
    assert any(
        chain[-1] == ("", "kernels.cu", product) and len(chain) == 3 for chain in lines(without(cubin("lines"), ".debug_str"), SCALE)
    )


@pytest.mark.parametrize("data", [b"", b"\x7fELF", bytes(64), Path("/bin/sh").read_bytes()[:4096]])
def test_a_file_that_is_no_cubin_is_refused(data: bytes):
    with pytest.raises(NotElf):
        Cubin(data)


def test_a_large_file_is_read_in_parts(monkeypatch: pytest.MonkeyPatch):
    with (DATA / "lines.cubin").open("rb") as file:
        whole = Cubin.of(file)
        monkeypatch.setattr("aiflame.resolve.device.cubin.IN_MEMORY", 0)
        parts = Cubin.of(file)
    assert whole and parts and whole is not parts
    function = parts.find(SCALE)
    assert function and parts.code(function.section) == whole.code(function.section)
    assert CubinLines(parts).chain(function.section, 0xD0) == CubinLines(whole).chain(function.section, 0xD0)


def survives(data: bytes) -> None:
    """Any bytes give an answer or a clear error."""
    try:
        code = Cubin(data)
    except NotElf:
        return
    table = CubinLines(code)
    for name in (SCALE, "outer", "$outer$_Z9slow_partfi", "softmax"):
        if function := code.find(name):
            for address in range(function.start, min(function.start + function.size, 4096), 16):
                table.chain(function.section, address)
            code.relocations(".text." + name)


def test_a_cubin_cut_short_anywhere_gives_its_remaining_functions():
    data = cubin("lines")
    for length in range(0, len(data), 7):
        survives(data[:length])


def test_a_line_table_cut_short_anywhere_gives_its_remaining_lines():
    data = cubin("lines")
    section = Cubin(data).elf.section(".debug_line")
    assert section
    for length in range(section.size):
        end = section.offset + length
        survives(data[:end] + bytes(section.size - length) + data[section.offset + section.size :])


@given(st.sampled_from(["lines", "softmax"]), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=12))
def test_flipped_bytes_anywhere_are_survived(name: str, flips: list[tuple[int, int]]):
    data = bytearray(cubin(name))
    for at, bits in flips:
        data[at % len(data)] ^= bits
    survives(bytes(data))


@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=12))
def test_flipped_bytes_in_the_line_table_are_survived(flips: list[tuple[int, int]]):
    data = bytearray(cubin("lines"))
    section = Cubin(bytes(data)).elf.section(".debug_line")
    assert section
    for at, bits in flips:
        data[section.offset + at % section.size] ^= bits
    survives(bytes(data))
