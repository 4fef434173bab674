"""Instructions of AMD's code objects: llvm-objdump's text, function by function; a copy that does not know a GPU is passed over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hsacos import ALL, SCALE, TRITON, fake_objdump, hsaco, instructions

from aiflame.resolve.device.hsaco import Hsaco
from aiflame.resolve.device.llvm_objdump import Code, Listing, disassemble, tools

REFUSES = "print(\"'gfx950' is not a recognized processor for this target (ignoring processor)\", file=sys.stderr)\nshow()"


def codes(*names: str) -> list[Code]:
    hsacos = [Hsaco(hsaco(name)) for name in names]
    return [Code(code, list(code.functions)) for code in hsacos]


def expected(name: str) -> Listing:
    code = Hsaco(hsaco(name))
    return {address: text for address, text in instructions(name) if code.at(address)}


def folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


def test_every_instruction_of_a_function_is_there_with_its_target(tmp_path: Path):
    listings = disassemble(codes(*ALL), [fake_objdump(tmp_path, "show()")])
    assert listings == [expected(name) for name in ALL]
    assert listings[0][0x161C] == "s_branch 56 <matmul_silu+0x100>"
    lengths = {after - before for before, after in zip(sorted(listings[2]), sorted(listings[2])[1:], strict=False)}
    assert lengths >= {4, 8, 12}


@pytest.mark.parametrize("name", ALL)
def test_a_real_tool_gives_the_instructions_of_llvm_22(name: str):
    """Versions of LLVM print operands differently, but agree about the places and the names of instructions."""
    (listing,) = disassemble(codes(name), tools())
    if not listing:
        pytest.skip(f"no llvm-objdump here knows {name.partition('.')[2]}")
    assert _mnemonics(listing) == _mnemonics(expected(name))


def test_a_tool_that_guesses_is_passed_over(tmp_path: Path):
    old = fake_objdump(folder(tmp_path, "old"), REFUSES)
    assert disassemble(codes(TRITON[1]), [old]) == [{}]
    new = fake_objdump(folder(tmp_path, "new"), "show()")
    assert disassemble(codes(TRITON[1]), [old, new]) == [expected(TRITON[1])]


def test_a_tool_that_fails_on_one_code_object_reads_the_others(tmp_path: Path):
    tool = fake_objdump(tmp_path, f"show()\nsys.stdout.flush()\nif name == {SCALE!r}: os.abort()")
    assert disassemble(codes(SCALE, TRITON[0]), [tool]) == [{}, expected(TRITON[0])]


def test_a_tool_that_hangs_ends_with_the_time(tmp_path: Path):
    assert disassemble(codes(SCALE), [fake_objdump(tmp_path, "time.sleep(600)")], limit_s=0.5) == [{}]


def test_the_tool_gets_only_the_range_of_a_function(tmp_path: Path):
    tool = fake_objdump(tmp_path, f"open({str(tmp_path / 'log')!r}, 'a').write(' '.join(sys.argv[1:-1]) + '\\n')\nshow()")
    code = codes(SCALE)[0]
    function = code.hsaco.find("scale")
    assert function
    code.functions = [function]
    (listing,) = disassemble([code], [tool])
    assert list(listing) == [address for address, _ in instructions(SCALE) if function.covers(address)]
    ends = (hex(function.start), hex(function.start + function.size))
    assert (tmp_path / "log").read_text() == f"-d --start-address={ends[0]} --stop-address={ends[1]}\n"


def test_rocms_own_copy_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib/llvm/bin").mkdir(parents=True)
    tool = fake_objdump(tmp_path / "lib/llvm/bin", "")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert tools()[0] == tool


def _mnemonics(listing: Listing) -> dict[int, str]:
    return {address: re.sub(r"_e(32|64)$", "", text.split()[0]) for address, text in listing.items()}
