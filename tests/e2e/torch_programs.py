"""Programs with torch on the CPU, to be recorded: small models whose ops are long enough to be met by samples."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder, Run

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
ONE_COMPILES = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "1"}
"""Inductor compiles in the program's process: others would be recorded, too. It reads from /proc/cpuinfo which vector
instructions there are, instead of compiling six programs that try them."""
TRAINING = PROGRAMS / "torch_training.py"


def record_training(record: Recorder, *arguments: str, options: tuple[str, ...] = ()) -> Run:
    """A tiny transformer that is trained for a few steps, on one thread: programs/torch_training.py describes its output."""
    # Threads that wait sleep: where others have the CPU, two that spin for each other take minutes.
    env = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    run = record(PYTHON, TRAINING, *arguments, options=options, env=env)
    assert run.status == 0, run.stderr
    return run


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text)
    return path
