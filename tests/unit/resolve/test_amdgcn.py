"""Instructions of AMD's code without a disassembler: where they begin, and their texts from the assembly in Triton's cache."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hsacos import ALL, SCALE, TRITON, assembly, fake_objdump, hsaco, instructions
from hypothesis import given
from hypothesis import strategies as st
from profiles import sealed, this_machine

import aiflame
from aiflame.profile.tables.store import Profile
from aiflame.resolve.complete import complete
from aiflame.resolve.device import amdgcn, no_tool
from aiflame.resolve.device.amd_lengths import begins
from aiflame.resolve.device.hsaco import Function, Hsaco
from aiflame.resolve.device.triton_lines import TritonCache
from aiflame.resolve.files.outside import NOTHING

KERNEL = "matmul_silu"
GFX942, GFX950, GFX1100, GFX1200 = TRITON
ALSO_PRINTED_AS = {
    "s_barrier_wait 0xffff": "s_barrier_wait -1",
    "s_load_b64 s[6:7], s[0:1], null": "s_load_b64 s[6:7], s[0:1], 0x0",
}
"""LLVM's disassembler → its assembly printer, of the same code."""
ENCODINGS = [
    ("gfx942", "v_mov_b64_e32 v[2:3], 0x1234", "ff70047e34120000"),
    ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x12345", "01f800ba45230100"),
    ("gfx942", "v_fmaak_f32 v1, v2, v3, 0x1234", "0207023034120000"),
    ("gfx942", "v_add_f32_sdwa v1, v2, v3", "f906020202160606"),
    ("gfx942", "v_add_f32_dpp v1, v2, v3 row_newbcast:1", "fa060202025101ff"),
    ("gfx942", "s_call_b64 s[0:1], 4", "040080ba"),
    ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23]", "0000add304195204"),
    ("gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v24, v25", "0000acd3183302000008add304195204"),
    ("gfx1100", "v_dual_fmaak_f32 v1, v2, v3, 0x1234 :: v_dual_add_f32 v4, 0x1234, v5", "020748c8ff0a040134120000"),
    ("gfx1100", "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x12345", "01f880b945230100"),
    ("gfx1100", "v_fmamk_f16 v1, v2, 0x1234, v3", "0207026e34120000"),
    ("gfx1100", "v_add_f32_e64_dpp v1, v2, -v3 quad_perm:[0,1,2,3]", "010003d5fa06024002e400ff"),
    ("gfx1100", "v_add_f32_e64_dpp v1, v2, -v3 dpp8:[7,6,5,4,3,2,1,0]", "010003d5e906024002773905"),
    ("gfx1100", "v_fma_f32 v1, v2, 0x1234, 0x1234", "010013d602fffd0334120000"),
    ("gfx1100", "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "004040cc0821021c"),
    ("gfx1200", "s_fmaak_f32 s1, s2, s3, 0x1234", "020381a234120000"),
    ("gfx1200", "v_pk_fma_f16 v1, v2, 0x1234, v3", "01400ecc02ff0d1c34120000"),
    ("gfx1200", "v_s_exp_f32 s1, 0x1234", "010080d6ff00000034120000"),
]
"""By LLVM's assembler, as Triton 3.6.0 has it."""
NOP = bytes.fromhex("000080bf")


def function(name: str) -> tuple[Hsaco, Function]:
    code = Hsaco(hsaco(name))
    kernel = code.find(KERNEL)
    assert kernel
    return code, kernel


def cache_in(path: Path, name: str, text: str | None = None, content: bytes | None = None) -> TritonCache:
    folder = path / "KEY"
    folder.mkdir(exist_ok=True)
    (folder / f"{KERNEL}.hsaco").write_bytes(hsaco(name) if content is None else content)
    (folder / f"{KERNEL}.amdgcn").write_text(assembly(name) if text is None else text)
    return TritonCache([path], this_machine())


@pytest.mark.parametrize("name", ALL)
def test_instructions_begin_where_llvm_has_them(name: str):
    code = Hsaco(hsaco(name))
    for one in code.functions:
        expected = [address - one.start for address, _ in instructions(name) if one.covers(address)]
        assert begins(code.elf.at_address(one.start, one.size), code.architecture) == expected


@pytest.mark.parametrize(("architecture", "text", "code"), ENCODINGS)
def test_the_next_instruction_begins_behind_constants_and_second_parts(architecture: str, text: str, code: str):
    data = bytes.fromhex(code)
    assert begins(data + NOP, architecture) == [0, len(data)], text
    for cut in range(4, len(data), 4):
        assert begins(data[:cut], architecture) == [], "an instruction that is cut short"


@pytest.mark.parametrize(
    ("architecture", "code"),
    [
        ("gfx942", "000000f000000000"),
        ("gfx942", "000000c400000000"),
        ("gfx950", "0040acd301050218"),
        ("gfx1100", "f9060202"),
        ("gfx1100", "000000f800000000"),
        ("gfx1200", "000000d00000000000000000"),
        ("gfx1030", "000080bf"),
        ("", "000080bf"),
        ("gfx942", "0000"),
    ],
)
def test_unknown_encodings_and_gpus_are_refused(architecture: str, code: str):
    """Images, exports, half of a scaled matrix instruction, SDWA where there is none, other generations."""
    assert begins(bytes.fromhex(code) + NOP, architecture) == []


@given(st.sampled_from(TRITON), st.binary(max_size=256))
def test_any_bytes_are_read(name: str, data: bytes):
    offsets = begins(data, name.partition(".")[2])
    assert all(0 < after - before <= 16 for before, after in pairwise([*offsets, len(data)])) or not offsets


@pytest.mark.parametrize("name", TRITON)
def test_the_texts_are_those_of_llvms_disassembler(name: str, tmp_path: Path):
    code, kernel = function(name)
    expected = {at: " ".join(text.split()) for at, text in instructions(name) if kernel.covers(at)}
    assert amdgcn.texts(code, kernel, cache_in(tmp_path, name)) == {at: ALSO_PRINTED_AS.get(text, text) for at, text in expected.items()}


def test_files_are_read_only_where_that_is_allowed(tmp_path: Path):
    code, kernel = function(GFX942)
    cache_in(tmp_path, GFX942)
    assert not amdgcn.texts(code, kernel, TritonCache([tmp_path], NOTHING))


def test_another_compilation_of_the_same_name_is_not_believed(tmp_path: Path):
    code, kernel = function(GFX942)
    data = bytearray(hsaco(GFX942))
    section = next(one for one in code.elf.sections if one.covers(kernel.start))
    data[section.offset + kernel.start - section.address + 4] ^= 1
    assert not amdgcn.texts(code, kernel, cache_in(tmp_path, GFX942, content=bytes(data)))
    assert not amdgcn.texts(code, kernel, cache_in(tmp_path, GFX950))
    assert amdgcn.texts(code, kernel, cache_in(tmp_path, GFX942))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"\ts_endpgm\n", ""),
        (r"\ts_endpgm\n", "\ts_endpgm\n\ts_nop 0\n"),
        (r"\ts_waitcnt lgkmcnt\(0\)\n", "\ts_waitcnt lgkmcnt(0)\n\t.long 0\n"),
        (r"(?m)^(\.LBB0_2:.*\n)((?:(?:\t\.|\.L).*\n)*\t[vsg]_.*\n)", r"\2\1"),
        (r"s_branch \.LBB0_0", "s_branch 1f"),
        (r"\t\.p2align\t8\n; %bb.8", "\t.p2align\t7\n; %bb.8"),
        (r"\t\.p2align\t8\n; %bb.8", "\t.p2align\t8, 0\n; %bb.8"),
        (r"(?m)^matmul_silu:", "other:"),
        (r"(?s).*", ""),
    ],
    ids=["one less", "one more", "data", "a label elsewhere", "a jump without label", "less filling", "other filling", "no label", "empty"],
)
def test_assembly_that_does_not_agree_gives_nothing(pattern: str, replacement: str, tmp_path: Path):
    code, kernel = function(GFX942)
    text = re.sub(pattern, replacement, assembly(GFX942), count=1)
    assert text != assembly(GFX942)
    assert not amdgcn.texts(code, kernel, cache_in(tmp_path, GFX942, text))


def profile(path: Path, names: dict[int, tuple[str, str]]) -> Profile:
    """With one sample in each function: CRC → code object, name."""
    (path / "cubins").mkdir(parents=True)
    for crc, (name, _) in names.items():
        (path / f"cubins/{crc:016x}.cubin").write_bytes(hsaco(name))
    rows = [{"cubin": crc, "name": kernel} for crc, (_, kernel) in names.items()]
    samples = [{"function": number, "count": 1} for number in range(1, len(rows) + 1)]
    return sealed(path, gpu_functions=rows, gpu_samples=samples)


def test_without_a_tool_a_profile_gets_the_assembly_and_later_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The tool that comes later knows only the code object that had no instructions."""
    monkeypatch.setattr("aiflame.resolve.device.llvm_objdump._candidates", lambda: iter([tmp_path / "llvm-objdump"]))
    monkeypatch.setattr("aiflame.resolve.device.gpu_code.caches", lambda: [tmp_path])
    monkeypatch.setattr("aiflame.resolve.files.outside.outside_of", lambda profile: this_machine())
    cache_in(tmp_path, GFX1100)
    _, kernel = function(GFX1100)
    store = profile(tmp_path / "p", {1: (GFX1100, f"{KERNEL}.kd"), 2: (SCALE, "scale")})
    complete(store)
    assert no_tool.AMD in store.meta.degraded, "because of the code that Triton did not make"
    expected = [address - kernel.start for address, _ in instructions(GFX1100) if kernel.covers(address)]
    assert store.table("gpu_instructions").select("cubin", "function", "offset").rows() == [(1, f"{KERNEL}.kd", at) for at in expected]
    assert set(store.table("gpu_lines").filter(cubin=1)["offset"]) <= set(expected), "lines of whole instructions"
    fake_objdump(tmp_path, f"if name == {SCALE!r}: show()")
    table = aiflame.open(store.path).table("gpu_instructions")
    assert len(table.filter(cubin=1)) == len(expected)
    assert len(table.filter(cubin=2)) > 20
