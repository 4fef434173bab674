"""SASS: nvdisasm's text becomes instructions; a kernel that it cannot decode, or hangs on, costs only itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cubins import SCALE, cubin, fake_nvdisasm

from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_cut import cut
from aiflame.resolve.device.nvdisasm import Code, disassemble, tools

PRINT = """
from pathlib import Path
names = [part.split(b"\\0")[0].decode() for part in Path(path).read_bytes().split(b".text.")[1:]]
def show(name):
    print(f'\\t.section\\t.text.{name},"ax",@progbits')
    print(f"{name}:")
    print("        /*0000*/              @!P0 BRA `(.L_x_1) ;")
    print("        /*0010*/                   CALL.REL.NOINC `(%s) ;" % name)
    print(".L_x_1:")
    print("        /*0020*/                   EXIT ;")
"""


def codes(name: str, *functions: str) -> list[Code]:
    code = Cubin(cubin(name))
    return [Code(code.header, code.code(section(code, function))) for function in functions]


def section(code: Cubin, function: str) -> int:
    entry = code.find(function)
    assert entry is not None
    return entry.section


def texts(listing: list[Any]) -> list[tuple[int, str]]:
    return [(one.offset, one.text("" if one.target is None else hex(one.target))) for one in listing]


def test_a_small_cubin_holds_the_code_of_large_ones():
    codes_ = codes("lines", "outer", SCALE)
    small = Cubin(cut(codes_[0].header, [one.code for one in codes_]))
    assert [small.code(section(small, name)) for name in ("f0", "f1")] == [one.code for one in codes_]
    assert small.header[48:52] == codes_[0].header[48:52], "the architecture"


def test_instructions_come_with_offsets_and_jump_targets(tmp_path: Path):
    tool = fake_nvdisasm(tmp_path, PRINT + "for name in names: show(name)")
    listings = disassemble(codes("lines", "outer", SCALE), [tool])
    assert list(listings) == [0, 1]
    for listing in listings.values():
        assert texts(listing) == [(0, "@!P0 BRA 0x20"), (16, "CALL.REL.NOINC 0x0"), (32, "EXIT")]


def test_code_of_different_architectures_never_shares_a_file(tmp_path: Path):
    tool = fake_nvdisasm(tmp_path, PRINT + f"open({str(tmp_path / 'log')!r}, 'a').write(f'{{len(names)}} ')\nfor name in names: show(name)")
    other = codes("softmax", "softmax")
    assert len(disassemble([*codes("lines", "outer", SCALE), *other], [tool])) == 3
    assert sorted((tmp_path / "log").read_text().split()) == ["1", "2"]


def test_a_function_on_which_the_tool_fails_takes_no_other_along(tmp_path: Path):
    bad = Code(codes("lines", "outer")[0].header, b"bad!" * 16)
    tool = fake_nvdisasm(tmp_path, PRINT + "if b'bad!' in Path(path).read_bytes(): sys.exit(1)\nfor name in names: show(name)")
    listings = disassemble([*codes("lines", "outer"), bad, *codes("lines", SCALE)], [tool])
    assert set(listings) == {0, 2}


def test_names_that_one_tool_does_not_know_go_to_the_next(tmp_path: Path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = fake_nvdisasm(tmp_path / "old", "sys.exit(1)")
    new = fake_nvdisasm(tmp_path / "new", PRINT + "for name in names: show(name)")
    assert set(disassemble(codes("lines", "outer"), [old, new])) == {0}


def test_code_that_was_read_lately_is_not_read_again(tmp_path: Path):
    """As for ranks of a job, which ran the same kernels: only the new one goes to the tool, and listings of old ones do not pile up."""
    tool = fake_nvdisasm(tmp_path, PRINT + f"open({str(tmp_path / 'log')!r}, 'a').write(f'{{len(names)}} ')\nfor name in names: show(name)")
    outer, scale = codes("lines", "outer", SCALE)
    first = disassemble([outer], [tool])
    again = disassemble([outer, scale], [tool])
    assert (again[0], list(again)) == (first[0], [0, 1])
    for number in range(5):  # each of 64 KiB
        disassemble([Code(outer.header, bytes([number]) * (64 << 10))], [tool])
    disassemble([outer], [tool])
    assert (tmp_path / "log").read_text().split() == ["1"] * 8


def test_a_tool_that_hangs_is_left(tmp_path: Path):
    tool = fake_nvdisasm(tmp_path, "time.sleep(600)")
    assert disassemble(codes("lines", "outer"), [tool], limit_s=0.5) == {}


@pytest.mark.parametrize("body", ["", "sys.stdout.buffer.write(bytes(range(256)) * 99)", "import os; os.kill(os.getpid(), 9)"])
def test_a_tool_that_prints_nothing_of_use_gives_nothing(tmp_path: Path, body: str):
    assert disassemble(codes("lines", "outer"), [fake_nvdisasm(tmp_path, body)]) == {}


def test_a_file_that_is_no_program_gives_nothing(tmp_path: Path):
    tool = tmp_path / "nvdisasm"
    tool.write_bytes(b"\x7fELF")
    tool.chmod(0o755)
    assert disassemble(codes("lines", "outer"), [tool]) == {}


def test_the_tool_is_looked_for_in_wheels_and_toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = [tmp_path / "site/nvidia/cu13/bin", tmp_path / "toolkit/bin", tmp_path / "path"]
    for folder in folders:
        folder.mkdir(parents=True)
        fake_nvdisasm(folder, "")
    (tmp_path / "path/nvdisasm").chmod(0o644)
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert tools()[:2] == [folders[0] / "nvdisasm", folders[1] / "nvdisasm"]
    assert folders[2] / "nvdisasm" not in tools(), "it cannot be run"


@pytest.mark.skipif(not tools(), reason="no nvdisasm here: pip install nvidia-cuda-nvdisasm")
class TestTheRealTool:
    def test_every_instruction_of_a_kernel_is_there(self):
        (listing,) = disassemble(codes("lines", "outer"), tools()).values()
        assert [one.offset for one in listing] == list(range(0, 2048, 16))
        shown = texts(listing)
        assert (0xD0, "BAR.SYNC.DEFER_BLOCKING 0x0") in shown
        assert (0x100, "CALL.REL.NOINC 0x130") in shown
        assert (0x120, "EXIT") in shown

    def test_old_and_new_formats_of_cubins_are_read_together(self):
        listings = disassemble([*codes("softmax", "softmax"), *codes("lines", SCALE), *codes("linked", "near")], tools())
        assert [len(listings[number]) for number in range(3)] == [3584 // 16, 512 // 16, 384 // 16]

    def test_code_that_is_no_code_is_survived(self):
        header = codes("lines", "outer")[0].header
        noise = [Code(header, bytes((7 * at * at + seed) % 251 for at in range(512))) for seed in range(4)]
        listings = disassemble([*noise, *codes("lines", "outer")], tools())
        assert len(listings[4]) == 128
