"""The derived tables of GPU code that sealing adds to a profile with samples and cubins."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import NoReturn

import polars as pl
import pytest
from cubins import DATA, SCALE, cubin, fake_nvdisasm, line_of
from profiles import Row, sealed, this_machine
from test_nvdisasm import PRINT

import aiflame
from aiflame.profile.tables.store import Profile
from aiflame.resolve.complete import complete
from aiflame.resolve.device import device_code, gpu_code
from aiflame.resolve.device.cubin_lines import File
from aiflame.resolve.device.gpu_code import write_gpu_tables
from aiflame.resolve.device.nvdisasm import NO_TOOL
from aiflame.resolve.device.sources import LARGEST, sources
from aiflame.resolve.files.outside import Source

LINES, SOFTMAX, UNUSED = 0x10, 0xFEDC_BA98_7654_3210, 0x30


def profile(path: Path, *functions: tuple[int, str], **tables: list[Row]) -> Profile:
    """With one sample in each function, and three cubins."""
    folder = path / "cubins"
    folder.mkdir(parents=True)
    for crc, name in ((LINES, "lines"), (SOFTMAX, "softmax"), (UNUSED, "plain")):
        (folder / f"{crc:016x}.cubin").write_bytes(cubin(name))
    rows = [{"cubin": crc, "name": name} for crc, name in functions]
    samples = [{"function": number, "count": 1} for number in range(1, len(rows) + 1)]
    return sealed(path, gpu_functions=rows, gpu_samples=samples, **tables)


def write(store: Profile, *nvdisasm: Path) -> list[str]:
    return write_gpu_tables(store, lambda share: None, nvdisasm)


@pytest.fixture
def nvdisasm(tmp_path: Path) -> Path:
    return fake_nvdisasm(tmp_path, PRINT + "for name in names: show(name)")


def test_every_instruction_of_a_sampled_function_is_there(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (LINES, SCALE), (SOFTMAX, "softmax"))
    assert write(store, nvdisasm) == []
    table = store.table("gpu_instructions")
    assert table.rows() == [
        (crc, name, offset, text)
        for crc, name in ((LINES, SCALE), (SOFTMAX, "softmax"))
        for offset, text in ((0, "@!P0 BRA 0x20"), (16, "CALL.REL.NOINC 0x0"), (32, "EXIT"))
    ]


def test_lines_lead_from_the_kernel_to_its_inlined_functions(tmp_path: Path):
    store = profile(tmp_path / "p", (LINES, SCALE))
    write(store)
    rows = store.table("gpu_lines").filter(pl.col("offset") == 0xD0)
    file = "/tmp/aiflame-kernels/kernels.cu"
    assert rows.select("cubin", "function", "depth", "name", "file", "line").rows() == [
        (LINES, SCALE, 0, "scale<float,4>", file, line_of("kernels.cu", "norm(data + at)")),
        (LINES, SCALE, 1, "norm", file, line_of("kernels.cu", "sum += sq")),
        (LINES, SCALE, 2, "square", file, line_of("kernels.cu", "x * x;")),
    ]


def test_a_function_called_in_a_kernel_is_named_where_its_code_is(tmp_path: Path):
    """Samples name the kernel that holds it, or itself; offsets count from the one that they name."""
    store = profile(tmp_path / "p", (LINES, "outer"), (LINES, "$outer$_Z9slow_partfi"))
    write(store)
    lines = store.table("gpu_lines").filter(pl.col("depth") == 0)
    assert lines.filter(function="outer", offset=0x100)["name"].to_list() == ["outer"]
    assert lines.filter(function="outer", offset=0x130)["name"].to_list() == ["slow_part"]
    inner = lines.filter(function="$outer$_Z9slow_partfi", offset=0)
    assert inner.select("name", "line").rows() == [("slow_part", line_of("kernels.cu", "for (int i"))]


def test_functions_that_nobody_sampled_cost_nothing(tmp_path: Path, nvdisasm: Path):
    rows = [{"cubin": LINES, "name": SCALE}, {"cubin": LINES, "name": "outer"}]
    store = profile(tmp_path / "p")
    store = sealed(tmp_path / "q", gpu_functions=rows, gpu_samples=[{"function": 2, "count": 1}])
    shutil.copytree(tmp_path / "p/cubins", tmp_path / "q/cubins")
    write(store, nvdisasm)
    assert store.table("gpu_instructions")["function"].unique().to_list() == ["outer"]
    assert store.table("gpu_lines")["function"].unique().to_list() == ["outer"]


def test_without_nvdisasm_there_are_lines_and_one_note_that_says_how_to_mend_it(tmp_path: Path):
    store = profile(tmp_path / "p", (LINES, SCALE))
    assert write(store) == [NO_TOOL]
    assert len(store.table("gpu_instructions")) == 0
    assert store.table("gpu_lines")["offset"].unique().sort().to_list() == list(range(0, 512, 16))


def test_once_nvdisasm_is_there_opening_adds_the_instructions(tmp_path: Path, nvdisasm: Path, monkeypatch: pytest.MonkeyPatch):
    store = profile(tmp_path / "p", (LINES, SCALE))
    monkeypatch.setattr(gpu_code, "tools", list)
    opened = aiflame.open(store.path)
    assert NO_TOOL in opened.meta.degraded and len(opened.table("gpu_instructions")) == 0
    monkeypatch.setattr(gpu_code, "tools", lambda: [nvdisasm])
    opened = aiflame.open(store.path)
    assert NO_TOOL not in opened.meta.degraded and len(opened.table("gpu_instructions")) == 3
    assert opened.table("sources").rows() == aiflame.open(store.path).table("sources").rows()


def test_a_profile_with_its_instructions_is_not_touched_again(tmp_path: Path, nvdisasm: Path, monkeypatch: pytest.MonkeyPatch):
    store = profile(tmp_path / "p", (LINES, SCALE))
    monkeypatch.setattr(gpu_code, "tools", lambda: [nvdisasm])
    complete(store)
    assert len(store.table("gpu_instructions")) == 3
    monkeypatch.setattr(gpu_code, "disassemble", lambda *_: pytest.fail("disassembled again"))
    complete(store)


def test_device_code_with_samples_stays_packed_and_the_other_is_removed(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (LINES, SCALE))
    before = device_code.binary(store.folder.folder("cubins"), LINES)
    write(store, nvdisasm)
    assert [file.name for file in (store.path / "cubins").iterdir()] == [f"{LINES:016x}.cubin.gz"]
    assert before and device_code.binary(store.folder.folder("cubins"), LINES) == before


def test_packed_device_code_that_is_damaged_counts_as_not_kept(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (LINES, SCALE))
    write(store, nvdisasm)
    [packed] = (store.path / "cubins").iterdir()
    for content in (packed.read_bytes()[:50], b"", b"not packed at all"):
        packed.write_bytes(content)
        assert device_code.cubin(store.folder.folder("cubins"), LINES) is None


def test_device_code_stays_as_it_is_where_it_cannot_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = profile(tmp_path / "p", (LINES, SCALE))
    monkeypatch.setattr(os, "rename", full)
    device_code.keep(store.folder, {LINES})
    assert [file.name for file in (store.path / "cubins").iterdir()] == [f"{LINES:016x}.cubin"]


def test_a_file_that_is_no_device_code_of_ours_stays(tmp_path: Path):
    store = profile(tmp_path / "p")
    (store.path / "cubins/folder").mkdir()
    write(store)
    assert [file.name for file in (store.path / "cubins").iterdir()] == ["folder"]


def test_without_any_sample_no_device_code_stays_and_no_table_comes(tmp_path: Path):
    store = profile(tmp_path / "p")
    assert write(store) == []
    assert not (store.path / "cubins").exists()
    assert not any(store.has(name) for name in ("gpu_instructions", "gpu_lines", "sources", "kernel_names"))


def test_a_kernel_without_lines_has_its_instructions(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (UNUSED, "outer"))
    assert write(store, nvdisasm) == []
    assert len(store.table("gpu_instructions")) == 3
    assert len(store.table("gpu_lines")) == 0


def test_missing_code_is_noted_once(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (LINES, "gone"), (0x99, "a"), (0x99, "b"), (LINES, SCALE))
    assert write(store, nvdisasm) == [
        "the device code of 2 sampled functions was not kept: they have no lines and no instructions",
        "1 sampled function could not be found in the device code: they have no lines and no instructions",
    ]
    assert store.table("gpu_instructions")["function"].unique().to_list() == [SCALE]


def test_a_damaged_cubin_costs_only_itself(tmp_path: Path, nvdisasm: Path):
    store = profile(tmp_path / "p", (SOFTMAX, "softmax"), (LINES, SCALE))
    (store.path / f"cubins/{SOFTMAX:016x}.cubin").write_bytes(cubin("softmax")[:100])
    write(store, nvdisasm)
    assert store.table("gpu_lines")["function"].unique().to_list() == [SCALE]


def test_code_that_the_tool_cannot_read_is_noted(tmp_path: Path):
    store = profile(tmp_path / "p", (LINES, SCALE))
    (note,) = write(store, fake_nvdisasm(tmp_path, "sys.exit(1)"))
    assert "could not read 1 of 1 sampled kernels" in note and "pip install -U nvidia-cuda-nvdisasm" in note


def test_every_kernel_has_its_names(tmp_path: Path):
    store = profile(tmp_path / "p", (LINES, SCALE), kernel_shapes=[{"name": "_attn_fwd"}, {"name": SCALE}])
    write(store)
    assert store.table("kernel_names").rows() == [
        (SCALE, "scale<float,4>", "void scale<float, 4>(float*, int)", "other"),
        ("_attn_fwd", "_attn_fwd", "_attn_fwd", "attention"),
    ]


def test_a_profile_that_was_never_sealed_gets_all_when_it_is_opened(tmp_path: Path):
    store = profile(tmp_path / "p", (LINES, SCALE), kernel_shapes=[{"name": SCALE}])
    opened = aiflame.open(store.path)
    assert {"gpu_instructions", "gpu_lines", "sources", "kernel_names", "symbols"} <= set(opened.store.names())


class TestSources:
    def test_the_text_is_kept_as_it_was(self, tmp_path: Path):
        path = tmp_path / "kernel.py"
        path.write_text("x = 1  # é\n")
        assert sources([File(str(path), path.stat().st_size)], [], this_machine()).text == {str(path): "x = 1  # é\n"}

    def test_a_file_that_has_changed_since_it_was_compiled_is_not(self, tmp_path: Path):
        path = tmp_path / "kernel.py"
        path.write_text("x = 1\n")
        kept = sources([File(str(path), 99)], [], this_machine())
        assert kept.text == {}
        assert kept.notes == [f"{path} changed after GPU code was compiled from it: its text is not kept"]

    def test_a_file_of_unknown_size_is_believed(self, tmp_path: Path):
        path = tmp_path / "kernel.py"
        path.write_text("x = 1\n")
        assert list(sources([File(str(path), 0)], [], this_machine()).text) == [str(path)]

    def test_a_relative_path_starts_where_the_program_did(self, tmp_path: Path):
        (tmp_path / "kernel.cu").write_text("kernel")
        assert sources([File("kernel.cu", 6)], ["/none", str(tmp_path)], this_machine()).text == {"kernel.cu": "kernel"}

    @pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"x" * (LARGEST + 1)])
    def test_a_file_that_is_no_text_or_too_large_is_not_kept(self, tmp_path: Path, content: bytes):
        path = tmp_path / "kernel.py"
        path.write_bytes(content)
        assert sources([File(str(path), 0)], [], this_machine()).text == {}

    @pytest.mark.parametrize("path", ["", "/", "/none/at/all", "/dev/zero", "a\0b", "/" + "x" * 9999])
    def test_unreadable_values_are_left_out(self, path: str):
        assert sources([File(path, 5)], ["/"], this_machine()).text == {}


def test_the_sources_of_a_kernel_are_in_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = profile(tmp_path / "p", (LINES, SCALE))
    monkeypatch.setattr(
        "aiflame.resolve.device.sources._read", lambda file, folders, outside: Source((DATA / Path(file.path).name).read_bytes())
    )
    write(store)
    assert store.table("sources").rows() == [("/tmp/aiflame-kernels/kernels.cu", (DATA / "kernels.cu").read_text())]
