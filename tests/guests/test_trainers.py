"""The callbacks of `aiflame.flight` in the Trainers that they are for. No time is measured: the program has a clock of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from guest import ENVIRONMENTS

PROGRAM = Path(__file__).with_name("programs") / "trainer.py"
SOURCE = Path(__file__).parents[2] / "src"
PYTHON = ENVIRONMENTS / "python/bin/python"
NEEDS = {"lightning": "import torch, pytorch_lightning", "transformers": "import torch, transformers, accelerate"}


@pytest.mark.parametrize("trainer", NEEDS)
def test_a_slow_step_of_a_trainer_is_kept(trainer: str) -> None:
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", NEEDS[trainer]], capture_output=True, check=False).returncode:
        pytest.skip(f"{NEEDS[trainer].removeprefix('import ')} are not all among the guests: make guests")
    ended = subprocess.run(
        [PYTHON, str(PROGRAM), trainer], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False
    )
    assert ended.returncode == 0, ended.stderr
    requests = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"reason"')]
    assert [request["reason"] for request in requests] == ["step 13 took 4.00 s, 4.0 times the median"]
