"""Code objects of AMD: functions, kernel descriptors, and lines with inlined calls, held against LLVM's own tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hsacos import ALL, SCALE, TRITON, assembly, chains, hsaco, instructions
from hypothesis import given
from hypothesis import strategies as st

from aiflame.resolve.device.hsaco import Hsaco
from aiflame.resolve.files.elf_file import NotElf


@pytest.mark.parametrize("name", ALL)
def test_lines_equal_llvms(name: str):
    code, expected = Hsaco(hsaco(name)), chains(name)
    compared = 0
    for function in code.functions:
        addresses = [at for at in expected if function.covers(at)]
        for address, chain in zip(addresses, code.chains(addresses), strict=True):
            lines = [(place.function or function.name, Path(place.file.path).name, place.line) for place in chain]
            assert lines == [place for place in expected[address] if place[2]], hex(address)
            compared += 1
    assert compared > 140


def test_an_inlined_function_stands_below_the_line_of_its_call():
    code = Hsaco(hsaco(SCALE))
    kernel = code.find("scale")
    assert kernel
    addresses = range(kernel.start, kernel.start + kernel.size, 4)
    chains = code.chains(addresses)
    assert [("", 12), ("square", 2)] in [[(place.function, place.line) for place in chain] for chain in chains]
    assert code.chains(addresses, apart=True) == chains


@pytest.mark.parametrize("name", ALL)
def test_an_address_belongs_to_the_function_whose_code_it_is(name: str):
    code = Hsaco(hsaco(name))
    for function in code.functions:
        assert code.at(function.start) == code.at(function.start + function.size - 1) == function
        assert code.at(function.start + function.size) != function
    assert code.at(0) is None


def test_functions_that_are_no_kernels_are_found():
    assert {function.name for function in Hsaco(hsaco(SCALE)).functions} == {"scale", "sum", "slow_part", "square"}


def test_a_kernel_is_found_by_the_name_of_its_descriptor():
    code = Hsaco(hsaco(SCALE))
    assert code.find("sum.kd") == code.find("sum") is not None
    assert code.find("other") is None


@pytest.mark.parametrize("name", TRITON)
def test_the_descriptor_states_the_registers_that_the_compiler_asked_for(name: str):
    text = assembly(name)
    wanted = {key: int(value) for key, value in re.findall(r"\.amdhsa_(\w+) (\d+)$", text, re.MULTILINE)}
    kernel = Hsaco(hsaco(name)).kernels["matmul_silu"]
    granule = 8
    assert kernel.vector_registers == -(-wanted["next_free_vgpr"] // granule) * granule
    assert kernel.lds_bytes == wanted["group_segment_fixed_size"]
    assert kernel.scratch_bytes == wanted["private_segment_fixed_size"]
    assert kernel.argument_bytes == wanted["kernarg_size"]
    old = "gfx9" in name
    assert kernel.lanes == (64 if old else 32)
    assert kernel.accumulation_registers == (kernel.vector_registers - wanted["accum_offset"] if old else 0)
    (used,) = (int(count) for count in re.findall(r"; TotalNumSgprs: (\d+)", text))
    assert kernel.scalar_registers == (-(-used // 16) * 16 if old else 0)


def test_local_memory_and_the_architecture():
    code = Hsaco(hsaco(SCALE))
    assert (code.architecture, code.kernels["sum"].lds_bytes, code.kernels["scale"].lds_bytes) == ("gfx90a", 1024, 0)
    assert [Hsaco(hsaco(name)).architecture for name in TRITON] == [name.partition(".")[2] for name in TRITON]


def test_code_without_debug_information_has_functions_but_no_lines():
    data = bytearray(hsaco(SCALE).replace(b".debug_info", b".wiped_info").replace(b".debug_line", b".wiped_line"))
    code = Hsaco(bytes(data))
    assert len(code.functions) == 4
    assert set(code.chains([at for at, _ in instructions(SCALE)])) == {()}


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", hsaco(SCALE)[:18] + b"\x3e\0" + hsaco(SCALE)[20:]])
def test_other_files_are_refused(data: bytes):
    assert Hsaco.of_bytes(data) is None
    with pytest.raises(NotElf):
        Hsaco(data)


@given(
    st.sampled_from((SCALE, TRITON[0])),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6),
    st.floats(0, 1),
)
def test_damaged_code_objects_are_read_as_far_as_they_go(name: str, damage: list[tuple[float, bytes]], kept: float):
    data = bytearray(hsaco(name))
    for place, content in damage:
        at = int(place * (len(data) - len(content)))
        data[at : at + len(content)] = content
    code = Hsaco.of_bytes(bytes(data[: int(len(data) * kept)]))
    if code is not None:
        for function in code.functions[:3]:
            code.chains([function.start])
        assert all(kernel.vector_registers > 0 for kernel in code.kernels.values())


def test_a_stripped_code_object_has_the_functions_that_the_loader_needs():
    data = hsaco(SCALE).replace(b"\0.symtab\0", b"\0.wiped0\0")
    assert {function.name for function in Hsaco(data).functions} == {"scale", "sum"}
    assert Hsaco(data).kernels.keys() == {"scale", "sum"}
