"""The code of OpenCL programs on Intel's GPUs, kept with its addresses; a table of functions stands in for the loader and the driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from live import Process, build, plain, processes, recorded

from aiflame.resolve.device.zebin import Zebin

INTEL = Path(__file__).parents[2] / "unit/data/intel"
FILES = [INTEL / "matmul.lnl.opencl_debug_info.elf", INTEL / "matmul.pvc.debug_info.elf"]
PROGRAM = Path(__file__).parent / "programs/cl_modules.cpp"


def run(folder: Path, vendor: str) -> tuple[Process, str]:
    client = build(PROGRAM, folder, "-ldl")
    outcome = recorded([client, vendor, *FILES], folder / "p")
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(folder / "p")
    return process, outcome.stdout.strip()


def test_code_is_kept_when_a_program_gets_its_first_kernel(tmp_path: Path) -> None:
    """Again for a new program that has the handle of one that is gone, and for one that is built anew."""
    process, asked = run(tmp_path, "8086")
    assert asked == "3"
    loads = process.table("code_loads")
    spans = []
    for file in FILES:
        code = Zebin.of_bytes(file.read_bytes())
        assert code
        places = [(code.address(kernel), code.address(kernel) + kernel.size) for kernel in code.kernels]
        spans.append((min(places)[0], max(end for _, end in places) - min(places)[0]))
    assert loads.select("address", "bytes").rows() == [spans[0], spans[1], spans[1]]
    assert loads["crc"].n_unique() == 2 and loads["time_ns"].is_sorted()
    for file, crc in zip(FILES, loads["crc"].unique(maintain_order=True), strict=True):
        assert (tmp_path / f"p/cubins/{crc:016x}.cubin").read_bytes() == file.read_bytes()
    assert process.table("gpu_devices").select("device", "address").rows() == [("A GPU", "0000:03:1D.1")]


@pytest.mark.parametrize("vendor", ["10de", "1002"])
def test_other_vendors_are_not_asked(tmp_path: Path, vendor: str) -> None:
    process, asked = run(tmp_path, vendor)
    assert asked == "0" and process.table("code_loads").is_empty()


def test_the_program_alone_runs_the_same(tmp_path: Path) -> None:
    outcome = plain([build(PROGRAM, tmp_path, "-ldl"), "8086", *FILES], tmp_path)
    assert (outcome.status, outcome.stdout.strip()) == (0, "0")
