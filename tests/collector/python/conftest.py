"""Each CPython that is here, and an installation of the collector whose Python a test may replace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from live import library

from interpreters import VERSIONS, interpreter

pytest.register_assert_rewrite("python_programs")


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if path is None:
        pytest.skip(f"no CPython {request.param} here")
    return path


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own: the folder beside the library that Python in the program comes from."""
    installed = tmp_path / "installed"
    (installed / "lib").mkdir(parents=True)
    shutil.copy(library(), installed / "lib/libaiflame.so")
    monkeypatch.setenv("AIFLAME_LIBRARY", str(installed / "lib/libaiflame.so"))
    (installed / "target").mkdir()
    return installed / "target"
