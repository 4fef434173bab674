"""Recording real programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from recording import PYTHON, Recorder, Run


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
