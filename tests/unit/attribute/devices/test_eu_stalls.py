"""Stall samples of an Intel GPU stand under the stacks that launched their kernels."""

from __future__ import annotations

from pathlib import Path

from stalled_gpu import BASE, Program, recording, stretch
from trees import paths

from aiflame.attribute.devices.samples import NO_CODE
from aiflame.attribute.tree import GPU_STALLS
from aiflame.attribute.trees.build import tree
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.kinds import UNKNOWN_CODE
from aiflame.profile.tables.store import Profile
from aiflame.resolve.complete import complete
from aiflame.resolve.device.stall_reasons import short


def opened(path: Path) -> Profile:
    profile = open_profile(path)
    assert isinstance(profile, Profile)
    complete(profile)
    return profile


def test_towers_of_two_callers(tmp_path: Path) -> None:
    """A kernel that ran for 75 and 25% of its time for two callers has its samples in that proportion."""
    program = Program()
    program.load({"matmul": (BASE, 0x740), "scale": (BASE + 0x800, 0x100)}, 5)
    first, second = program.stack("main", "first"), program.stack("main", "second")
    for step in range(10):
        begin = 100 * step + 100
        program.run("matmul", begin, begin + 60, first)
        program.run("matmul", begin + 60, begin + 80, second)
        program.run("scale", begin + 80, begin + 90, second)
    stalls = {(BASE + 16, "eustall_sbid"): 40, (BASE + 32, "eustall_active"): 40, (BASE + 0x808, "eustall_sbid"): 7}
    profile = opened(recording(tmp_path / "p", [program], [stretch(100 * step + 100, 100 * step + 200, stalls) for step in range(10)]))
    towers = paths(tree(profile, GPU_STALLS.name, detail="function"), GPU_STALLS.name)
    sums = {(caller, kernel): 0 for caller in ("first", "second") for kernel in ("matmul", "scale")}
    for path, value in towers.items():
        sums[next(name for name in path if name in ("first", "second")), next(name for name in path if name in ("matmul", "scale"))] += (
            value
        )
    assert sums == {("first", "matmul"): 600, ("second", "matmul"): 200, ("first", "scale"): 0, ("second", "scale"): 70}


def test_reasons_stand_under_their_kernel(tmp_path: Path) -> None:
    program = Program()
    program.load({"matmul": (BASE, 0x740)}, 5)
    program.run("matmul", 100, 200, program.stack("main"))
    stalls = {(BASE + 16, "eustall_sbid"): 30, (BASE + 32, "eustall_active"): 12, (BASE + 0x8000, "eustall_tdr"): 5}
    profile = opened(recording(tmp_path / "p", [program], [stretch(100, 200, stalls)]))
    towers = paths(tree(profile, GPU_STALLS.name, detail="instruction"), GPU_STALLS.name)
    of_matmul = {path[-2:]: value for path, value in towers.items() if path[:5] == ("program (100)", "main thread", "main", "-", "matmul")}
    assert of_matmul == {(short("eustall_sbid"), "+0x10"): 30, (short("eustall_active"), "+0x20"): 12}
    unknown = {path: value for path, value in towers.items() if "matmul" not in path}
    assert unknown == {("program (100)", NO_CODE, UNKNOWN_CODE, short("eustall_tdr"), "+0x0"): 5}
    assert not [note for note in profile.notes() if "not kept" in note and "1 sampled" not in note]
