"""What a hook and a tick read of torch's autograd is what torch says, wherever they come in."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENES = Path(__file__).parent / "torch_autograd_scenes.py"
LIBRARY = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector")) / "libtorch_autograd.so"


@pytest.fixture(scope="module")
def scenes() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if not LIBRARY.exists():
        pytest.skip("the collector's test programs are not built")
    done = subprocess.run([sys.executable, str(SCENES), str(LIBRARY)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    "scene",
    [
        "before_calibration",
        "forward",
        "backward",
        "adding_up",
        "custom_function",
        "checkpointed",
        "checkpointed_reentrant",
        "other_thread",
        "twice",
    ],
)
def test_where_a_thread_stands(scenes: dict[str, Any], scene: str) -> None:
    read, true = scenes[scene]
    assert true
    assert read == true
