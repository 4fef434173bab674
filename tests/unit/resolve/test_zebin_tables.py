"""The tables about code of Intel's GPUs, as they are made when a profile is sealed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from device_work import UNDER, kernel, lines, profile, sample, window
from profiles import ran
from zebins import INTEL, disassemblers, iga64, line_of, zebin

from aiflame.attribute.trees.build import tree
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.enums import GpuApi
from aiflame.resolve.device import iga, no_tool, zebin_code
from aiflame.resolve.device.code_rows import CodeRows, parted
from aiflame.resolve.device.gpu_code import INSTRUCTIONS, LINES, _frame, write_gpu_tables
from aiflame.resolve.device.zebin import MACHINE

LNL, PVC, CUDA, GONE = 1, 2, 3, 4


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for crc, file in (
        (LNL, INTEL / "matmul.lnl.debug_info.elf"),
        (PVC, INTEL / "matmul.pvc.debug_info.elf"),
        (CUDA, INTEL.parent / "lines.cubin"),
    ):
        (tmp_path / f"{crc:016x}.cubin").write_bytes(file.read_bytes())
    return Folder.open(tmp_path)


def rows(folder: Folder, *sampled: tuple[int, str]) -> CodeRows:
    return zebin_code.read(folder, sampled, [], apart=False)


def test_zebins_are_told_from_other_code(folder: Folder) -> None:
    sampled = [(LNL, "matmul"), (CUDA, "outer"), (GONE, "x"), (LNL, "scale")]
    assert parted(folder, sampled, MACHINE) == ([(LNL, "matmul"), (LNL, "scale")], [(CUDA, "outer"), (GONE, "x")])


def test_each_instruction_has_its_line_and_the_lines_of_inlined_calls(folder: Folder) -> None:
    table = _frame(LINES, rows(folder, (LNL, "matmul"), (PVC, "scale")).lines)
    assert set(table.select("cubin", "function").rows()) == {(LNL, "matmul"), (PVC, "scale")}
    inlined = table.filter(pl.col("depth") == 1)
    assert set(inlined.select("name", "line").rows()) == {("dot_tile", line_of("matmul.cl", "sum = fma"))}
    calls = table.filter(pl.col("depth") == 0).join(inlined, on=["cubin", "function", "offset"], how="semi")
    assert set(calls.select("name", "line").rows()) == {("matmul", line_of("matmul.cl", "sum += dot_tile"))}
    assert {Path(file).name for file in table["file"]} == {"matmul.cl"}


def test_without_the_disassembler_there_are_opcodes_and_a_note(folder: Folder) -> None:
    code = rows(folder, (LNL, "matmul"))
    table = _frame(INSTRUCTIONS, code.instructions)
    end = zebin("matmul.lnl.debug_info.elf").end(1)
    assert table["offset"].to_list() == [offset for offset, _ in iga64("matmul.lnl.matmul") if offset < end]
    assert table.filter(pl.col("offset") == 0x70)["sass"].to_list() == ["send"]
    assert code.notes == [no_tool.INTEL]


def test_with_the_disassembler_there_are_texts(folder: Folder) -> None:
    if not (tools := disassemblers()):
        pytest.skip("no libiga64 here: Debian's libigc2 has it, and Intel's driver that `make test` brings")
    code = zebin_code.read(folder, [(PVC, "scale")], tools)
    wanted = [(PVC, "scale", offset, text) for offset, text in iga64("matmul.pvc.scale")]
    assert code.instructions == wanted[: len(code.instructions)] and len(code.instructions) > 40
    assert code.notes == []


def test_a_kernel_that_the_code_does_not_have(folder: Folder) -> None:
    code = rows(folder, (LNL, "other"), (GONE, "matmul"))
    assert not code.instructions and len(code.notes) == 1 and code.notes[0].startswith("2 sampled functions")


def test_a_profile_s_code_is_read_so_far(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zebin_code, "MOST_CODE", 2000)
    code = rows(folder, (LNL, "matmul"), (PVC, "matmul"))
    assert {row[0] for row in code.instructions} == {LNL}
    assert any("too large" in note for note in code.notes)


def test_the_flame_graph_leads_to_the_inlined_line_the_instruction_and_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 samples wait for local memory in the inlined function, 40 issue in the kernel itself."""
    (tmp_path / "p.aiflame/cubins").mkdir(parents=True)
    (tmp_path / f"p.aiflame/cubins/{LNL:016x}.cubin").write_bytes((INTEL / "matmul.lnl.debug_info.elf").read_bytes())
    recorded = profile(
        tmp_path,
        launches=[{"thread": 1, "stack": 2, "api": GpuApi.LEVEL_ZERO, "correlation": 1}],
        **ran(kernel(1, 100, 1100, name="matmul", api=GpuApi.LEVEL_ZERO)),
        stall_reasons=[{"index": number, "name": f"eustall_{name}"} for number, name in enumerate(("active", "sbid"))],
        gpu_windows=[window(0, 2000, samples=100)],
        gpu_functions=[{"cubin": LNL, "name": "matmul"}],
        gpu_samples=[sample(60, offset=0x380, reason=2), sample(40, offset=0x1D8, reason=1)],
    )
    monkeypatch.setattr(iga, "libraries", list)
    monkeypatch.setattr(zebin_code, "libraries", list)
    assert write_gpu_tables(recorded, lambda share: None) == [no_tool.INTEL]
    stacks = lines(tree(recorded, "gpu-stalls", detail="instruction"), "gpu-stalls")
    under = f"{UNDER};py::run;-;matmul_[G]"
    issued, call, inlined = (line_of("matmul.cl", text) for text in ("tile_b[y", "sum += dot_tile", "sum = fma"))
    assert stacks == {
        f"{under};matmul.cl:{issued}_[G];add_[g];active_[g];+0x1d8_[g]": 40,
        f"{under};matmul.cl:{call}_[G];dot_tile matmul.cl:{inlined}_[G];send_[g];sbid_[g];+0x380_[g]": 60,
    }
