"""The derived tables of AMD's device code that sealing adds to a profile with samples and code objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from hsacos import SCALE, TRITON, chains, fake_objdump, hsaco, instructions
from profiles import sealed

import aiflame
from aiflame.profile.tables.store import Profile
from aiflame.resolve.complete import complete
from aiflame.resolve.device import device_code, no_tool
from aiflame.resolve.device.gpu_code import write_gpu_tables
from aiflame.resolve.device.hsaco import Hsaco

CRC = {name: number for number, name in enumerate((SCALE, *TRITON), 0xA0)}


@pytest.fixture(autouse=True)
def no_other_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("aiflame.resolve.device.llvm_objdump._candidates", lambda: iter([tmp_path / "llvm-objdump"]))


def profile(path: Path, *functions: tuple[str, str]) -> Profile:
    """With one sample in each function."""
    (path / "cubins").mkdir(parents=True)
    for name, crc in CRC.items():
        (path / f"cubins/{crc:016x}.cubin").write_bytes(hsaco(name))
    rows = [{"cubin": CRC[name], "name": function} for name, function in functions]
    samples = [{"function": number, "count": 1} for number in range(1, len(rows) + 1)]
    return sealed(path, gpu_functions=rows, gpu_samples=samples)


def write(store: Profile) -> list[str]:
    return write_gpu_tables(store, lambda share: None, [])


def test_instructions_have_offsets_from_their_function(tmp_path: Path):
    fake_objdump(tmp_path, "show()")
    store = profile(tmp_path / "p", (SCALE, "sum.kd"), (TRITON[3], "matmul_silu"))
    assert write(store) == []
    table = store.table("gpu_instructions")
    for name, function in ((SCALE, "sum"), (TRITON[3], "matmul_silu")):
        code = Hsaco(hsaco(name)).find(function)
        assert code
        rows = table.filter(cubin=CRC[name]).select("offset", "sass").rows()
        assert rows == [(address - code.start, text) for address, text in instructions(name) if code.covers(address)]
    assert set(table.filter(cubin=CRC[SCALE])["function"]) == {"sum.kd"}, "the name in samples"


def test_lines_lead_from_the_kernel_to_its_inlined_function(tmp_path: Path):
    fake_objdump(tmp_path, "show()")
    store = profile(tmp_path / "p", (SCALE, "scale"))
    write(store)
    start = Hsaco(hsaco(SCALE)).find("scale")
    assert start
    inlined = next(at for at, chain in sorted(chains(SCALE).items()) if len(chain) == 2 and start.covers(at)) - start.start
    rows = store.table("gpu_lines").filter(offset=inlined).select("depth", "name", "file", "line").rows()
    assert rows == [(0, "scale", "/made/scale.cl", 12), (1, "square", "/made/scale.cl", 2)]


def test_without_a_tool_there_are_lines_and_a_note_and_instructions_come_later(tmp_path: Path):
    store = profile(tmp_path / "p", (SCALE, "scale"))
    complete(store)
    assert store.table("gpu_instructions").is_empty()
    assert not store.table("gpu_lines").is_empty()
    assert no_tool.AMD in store.meta.degraded
    fake_objdump(tmp_path, "show()")
    again = aiflame.open(store.path)
    assert len(again.table("gpu_instructions")) > 20
    assert no_tool.AMD not in again.meta.degraded


def test_a_function_that_the_code_object_lacks_is_noted(tmp_path: Path):
    fake_objdump(tmp_path, "show()")
    store = profile(tmp_path / "p", (SCALE, "scale"), (SCALE, "other"))
    assert write(store) == ["1 sampled functions could not be found in AMD's device code: they have no lines and no instructions"]


def test_sampled_code_objects_are_kept_and_the_others_removed(tmp_path: Path):
    fake_objdump(tmp_path, "show()")
    store = profile(tmp_path / "p", (SCALE, "scale"))
    write(store)
    folder = store.folder.folder("cubins")
    assert [entry.name for entry in folder.entries()] == [f"{CRC[SCALE]:016x}.cubin.gz"]
    assert device_code.binary(folder, CRC[SCALE]) == hsaco(SCALE)
    assert device_code.head(folder, CRC[SCALE]) == hsaco(SCALE)[:64]
