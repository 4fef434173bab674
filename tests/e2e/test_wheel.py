"""The wheel works on a clean Python."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

import aiflame

ROOT = Path(__file__).parent.parent.parent
BUSY = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    subprocess.run([sys.executable, str(ROOT / "scripts" / "tag_wheel.py"), str(folder)], check=True)
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


def clean_python(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def test_the_wheel_serves_every_python_and_old_systems(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    assert wheel.stat().st_size < 2 << 20


def test_it_records_and_reports_with_its_declared_dependencies_alone(wheel: Path, tmp_path: Path) -> None:
    python = clean_python(tmp_path / "venv")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    aiflame_command = tmp_path / "venv" / "bin" / "aiflame"
    for arguments in (
        ["record", "-o", "p.aiflame", "--", str(python), "-c", BUSY],
        ["top"],
        ["flame", "-o", "f.svg"],
        ["export", "-o", "c.txt"],
    ):
        subprocess.run([aiflame_command, *arguments], check=True, cwd=tmp_path, capture_output=True)
    assert "<svg" in (tmp_path / "f.svg").read_text()[:1000]
    assert "py::<module>" in (tmp_path / "c.txt").read_text()


def test_without_any_dependency_it_still_records(wheel: Path, tmp_path: Path) -> None:
    python = clean_python(tmp_path / "venv")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    command: list[str | Path] = [tmp_path / "venv" / "bin" / "aiflame", "record", "-o", "p.aiflame", "--", str(python), "-c", BUSY]
    result = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "is recorded; open it where polars is installed" in result.stderr
    assert len(aiflame.open(tmp_path / "p.aiflame").table("cpu_samples")) > 50
