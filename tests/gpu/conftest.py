"""Recording on a real GPU. Without one every test here is skipped and says so."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from gpu_common import machine
from gpu_runs import PROGRAMS, GpuRun, Recorder, Result
from recording import PYTHON, Run

HERE = Path(__file__).parent


@cache
def devices() -> int:
    """CUDA devices of this machine."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One device serves all tests here: each has it alone."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timed)
            if not devices() and not (item.path.name == "test_planted_gpu_causes.py" and os.environ.get("AIFLAME_GPU_PROFILES")):
                item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Runs a program of tests/gpu/programs under `aiflame record`; the same program with the same arguments once a session."""
    folder = tmp_path_factory.mktemp("gpu")
    runs: dict[tuple[str, ...], GpuRun] = {}

    def run(program: str, *arguments: str | Path, options: tuple[str, ...] = (), timeout: float = 90) -> GpuRun:
        key = (program, *map(str, arguments), *options)
        if key not in runs:
            path = folder / f"run{len(runs)}.aiflame"
            command = [PYTHON, "-m", "aiflame.cli.main", "record", "-o", str(path), *options, "--", *_command(program, arguments)]
            finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=folder, check=False)
            runs[key] = GpuRun(Run(finished.returncode, finished.stdout, finished.stderr, path))
        return runs[key]

    return run


@pytest.fixture
def alone(tmp_path: Path) -> Callable[..., Result]:
    """Runs the same without recording. Where that does not end, recording cannot be blamed."""

    def run(program: str, *arguments: str | Path) -> Result:
        command = _command(program, arguments)
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=40, cwd=tmp_path, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("the program alone does not end")
        return Result(finished.returncode, finished.stdout)

    return run


@pytest.fixture(scope="session")
def two_devices() -> None:
    if devices() < 2:
        pytest.skip("this machine has one CUDA device")


@pytest.fixture
def torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch")


def _command(program: str, arguments: tuple[str | Path, ...]) -> list[str]:
    return [PYTHON, str(PROGRAMS / program), *map(str, arguments)]


_outcomes: dict[str, dict[str, object]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """With AIFLAME_GPU_RESULTS, outcomes are written there as JSON after each test, with its figures (`record_property`): a crash costs
    only the later ones."""
    if report.when != "call" and report.outcome == "passed":
        return
    _outcomes[report.nodeid] = {"outcome": report.outcome, "why": report.longreprtext.replace(f"{HERE.parents[1]}/", "")[-3000:]}
    _outcomes[report.nodeid] |= dict(report.user_properties)
    if output := os.environ.get("AIFLAME_GPU_RESULTS"):
        counts = {kind: sum(outcome["outcome"] == kind for outcome in _outcomes.values()) for kind in ("passed", "failed", "skipped")}
        Path(output).write_text(json.dumps({"machine": _machine(), **counts, "tests": _outcomes}, indent=1) + "\n")


@cache
def _machine() -> dict[str, object]:
    return machine()
