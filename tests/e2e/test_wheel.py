"""The wheel works on a clean Python."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

import aiflame
from built import BUILT

ROOT = Path(__file__).parent.parent.parent
BUSY = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in the folder of `make build`: nothing is compiled a second time."""
    folder, compiled = tmp_path_factory.mktemp("wheel"), BUILT.parents[1]
    there = [f"-Cbuild-dir={compiled}", "-Ccmake.define.AIFLAME_TESTS=ON"] if (compiled / "CMakeCache.txt").exists() else []
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", *there, "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([sys.executable, str(ROOT / "scripts" / "tag_wheel.py"), str(folder)], check=True)
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a clean Python with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    install(folder, "--no-deps", str(wheel))
    return folder / "bin"


@pytest.fixture(scope="module")
def complete(bare: Path, wheel: Path) -> Path:
    """The same Python with the declared dependencies, for the last test: it is no longer bare."""
    install(bare.parent, str(wheel))
    return bare


def install(environment: Path, *packages: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, *packages], check=True)


def test_the_wheel_serves_every_python_and_old_systems(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    assert wheel.stat().st_size < 2.6e6  # 0.5 MB of it is native


def test_without_any_dependency_it_still_records(bare: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [bare / "aiflame", "record", "-o", "p.aiflame", "--", bare / "python", "-c", BUSY]
    result = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "is recorded; open it where polars is installed" in result.stderr
    assert aiflame.open(tmp_path / "p.aiflame").table("cpu_samples")["weight"].sum() > 50


def test_it_records_and_reports_with_its_declared_dependencies_alone(complete: Path, tmp_path: Path) -> None:
    for arguments in (
        ["record", "-o", "p.aiflame", "--", complete / "python", "-c", BUSY],
        ["top"],
        ["flame", "-o", "f.svg"],
        ["export", "-o", "c.txt"],
    ):
        subprocess.run([complete / "aiflame", *arguments], check=True, cwd=tmp_path, capture_output=True)
    assert "<svg" in (tmp_path / "f.svg").read_text()[:1000]
    assert "py::<module>" in (tmp_path / "c.txt").read_text()
