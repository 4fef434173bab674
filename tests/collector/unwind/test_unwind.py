"""Native stacks: equal to glibc's where glibc can follow, whole where it cannot, and never beyond the stack."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from live import processes

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from built import BUILT

HERE = Path(__file__).parent
PROBE = BUILT / "libunwind_probe.so"

pytestmark = pytest.mark.skipif(not PROBE.exists(), reason=f"no {PROBE}: `make test` builds it")

Json = dict[str, Any]


def run(program: str, *arguments: object) -> Json:
    result = subprocess.run([BUILT / program, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, (result.returncode, result.stderr)
    report: Json = json.loads(result.stdout)
    return report


def workload(name: str, python: str, *, period: int, calls: int, ticks: int, generated: int = 0, path: str = "") -> Json:
    """The tallies of a workload that runs until each has this many stacks."""
    environment = os.environ | {"LD_PRELOAD": str(PROBE), "INTEL_JIT_PROFILER64": str(PROBE), "PYTHONPATH": path}
    command = [python, str(HERE / "unwind_workloads.py"), str(PROBE), name, *map(str, (period, calls, ticks, generated))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    report: Json = json.loads(result.stdout)
    return report


@functools.cache
def python_with(package: str) -> str:
    """An interpreter that has the package: this one, or the one that AIFLAME_TORCH_PYTHON names."""
    for python in filter(None, (sys.executable, os.environ.get("AIFLAME_TORCH_PYTHON"))):
        script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
        if subprocess.run([python, "-c", script], capture_output=True).returncode == 0:
            return str(python)
    pytest.skip(f"no {package} here: `make test` installs it")


# Every instruction of a scene: the frames outside it are known.


@pytest.mark.parametrize("scene", ["calls", "realigned", "libc", "vdso", "binding", "signal", "exception", "register"])
def test_at_every_instruction_of_a_program_the_stack_ends_in_the_frames_that_stepped(scene: str) -> None:
    report = run("unwind_stepped", scene)
    assert report["steps"] > (10_000 if scene == "exception" else 500)
    assert report["whole"] == report["steps"]
    # Where a register has the return address, the frame that it leads to is the caller.
    assert report["register_found"] == report["register_returns"] >= (100 if scene == "register" else 0)


# Walks that reuse the last stack.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reused_stack_equals_that_of_a_fresh_walk_and_of_glibc(seed: int) -> None:
    report = run("unwind_chain", seed, 5000)
    for part, least in (("calls", 5000), ("exceptions", 200), ("thread_exit", 7)):
        counts = report[part]
        assert counts["stacks"] >= least
        assert counts["same_as_fresh"] == counts["same_as_glibc"] == counts["stacks"], part


def test_a_library_without_a_search_table_is_crossed() -> None:
    """Ours, its ten frames, and the program's outermost four."""
    assert run("unwind_chain", 1, 1, BUILT / "libno_search_table.so")["library_frames"] == 15


# Bad input.


@pytest.mark.parametrize("seed", range(5))
def test_damaged_unwind_tables_give_rules_or_none(seed: int) -> None:
    assert run("unwind_random", "tables", seed, 20_000)["rules"] > 20_000


@pytest.mark.parametrize("seed", range(3))
def test_a_random_stack_ends_inside_its_memory(seed: int) -> None:
    report = run("unwind_random", "stacks", seed, 20_000)
    assert sum(report["endings"]) == 20_000
    assert report["outside"] == 0
    assert report["longest"] > 1, "some words were taken for frames"


# Real libraries.


def agrees(report: Json) -> None:
    calls, handler = report["calls"], report["handler"]
    assert calls["agreed"] >= 0.999 * calls["frames"], calls["parted_at"]
    assert handler["equal"] >= 0.995 * handler["stacks"], handler["parted_at"]
    assert handler["unanswered"] <= 0.05 * handler["stacks"]


def test_training_with_torch() -> None:
    agrees(workload("training", python_with("torch"), period=7, calls=20_000, ticks=200))


def test_run_time_code_and_assembly_lead_to_the_first_frame_of_the_thread() -> None:
    report = workload("convolution", python_with("torch"), period=100, calls=500, ticks=200, generated=300)
    agrees(report)
    assert report["handler"]["outermost"] >= 0.99 * report["handler"]["generated"], report["handler"]["lost_at"]


def test_numpy() -> None:
    agrees(workload("arrays", sys.executable, period=3, calls=1000, ticks=300))


def test_pybind11_and_its_exceptions(tmp_path: Path) -> None:
    pybind11 = pytest.importorskip("pybind11")
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    build_bindings(compiler, pybind11.get_include(), tmp_path)
    agrees(workload("bindings", sys.executable, period=3, calls=10_000, ticks=200, path=str(tmp_path)))


def build_bindings(compiler: str, include: str, folder: Path) -> None:
    includes = [f"-I{include}", f"-I{sysconfig.get_paths()['include']}"]
    target = folder / f"unwind_bindings{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = HERE / "programs/unwind_bindings.cpp"
    subprocess.run([compiler, "-std=c++17", "-O2", "-fPIC", "-shared", *includes, str(source), "-o", str(target)], check=True)


# Modules.


@pytest.mark.parametrize("program", ["unwind_modules", "unwind_modules_fixed"])
def test_modules_are_followed_while_libraries_come_and_go(program: str, tmp_path: Path) -> None:
    profile = tmp_path / "a.aiflame"
    (profile / "spool").mkdir(parents=True)
    ControlPage.create(Folder.open(profile)).close()
    library = tmp_path / "libcall_back.so"
    shutil.copy(BUILT / library.name, library)
    data = tmp_path / "jit-1.dump"
    data.write_bytes(bytes(5000))
    report = run(program, profile, library, data)
    assert report == {
        "own": 1,
        "libc": 1,
        "vdso": 1,
        "anonymous": 1,
        "looked_again": 0,
        "gone": 1,
        "data": 1,
        "extra_ids": 0,
        "extra_mappings": 0,
        "frames_in_deleted": 10,
        "deleted_id": report["deleted_id"],
        "frames_in_library": 10,
    }
    (process,) = processes(profile)
    table = process.table("modules")
    rows = {str(path): row for row, path in enumerate(table["path"])}
    assert {str(library), f"{library}.copy", str(data), "[vdso]"} <= rows.keys()
    assert rows[f"{library}.copy"] + 1 == report["deleted_id"]
    assert table["inode"][rows[str(library)]] == library.stat().st_ino
    assert table["device"][rows[str(library)]] == library.stat().st_dev
    assert table["build_id"][rows[str(library)]] == table["build_id"][rows[f"{library}.copy"]]
    base = table["base"][rows[str(BUILT / program)]]
    assert (base == 0) == (program == "unwind_modules_fixed")
