"""Workers share the rewriting of tests: each rewrites its part, and nothing is left to rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, get_cache_dir

from rewritten import rewrite_part


def test_each_worker_rewrites_its_part_alone(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    files = [tmp_path / f"test_{number}.py" for number in range(5)]
    for number, file in enumerate(files):
        file.write_text(f"def test():\n    assert {number} == {number}\n")
    broken = tmp_path / "test_broken.py"
    broken.write_text("def test(:\n")

    def kept() -> list[Path]:
        return [file for file in files if _read_pyc(file, get_cache_dir(file) / (file.stem + PYC_TAIL)) is not None]

    rewrite_part(pytestconfig, [broken, *files], 0, 2)
    assert kept() == files[::2]
    rewrite_part(pytestconfig, [broken, *files], 1, 2)
    assert kept() == files
    assert b"@pytest_ar" in (get_cache_dir(files[0]) / f"test_0{PYC_TAIL}").read_bytes()
