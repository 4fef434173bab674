"""Recording real programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder, Run


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    """Runs a command under `aiflame record`, as a person does."""

    def run(
        *command: str | Path,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 600,
    ) -> Run:
        path = tmp_path / f"run{len(list(tmp_path.glob('run*.aiflame')))}.aiflame"
        result = subprocess.run(
            [PYTHON, "-m", "aiflame.cli.main", "record", "-o", str(path), *options, "--", *map(str, command)],
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            check=False,
        )
        return Run(result.returncode, result.stdout, result.stderr, path)

    return run


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a program of tests/e2e/programs without frame pointers; `.so` for a library, anything else for an executable."""
    folder = tmp_path_factory.mktemp("built")

    def build(source: str, output: str, *flags: str) -> Path:
        compiler = shutil.which("g++" if source.endswith(".cpp") else "gcc")
        if not compiler:
            pytest.skip("no C++ compiler")
        target = folder / output
        if not target.exists():
            shared = ("-shared", "-fPIC") if output.endswith(".so") else ()
            subprocess.run(
                [compiler, "-O2", "-g", "-fomit-frame-pointer", *shared, "-o", str(target), str(PROGRAMS / source), *flags], check=True
            )
        return target

    return build
