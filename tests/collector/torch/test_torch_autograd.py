"""A hook and a tick read the same state of autograd that torch reports, at every moment."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live import recorded

from built import BUILT

ROOT = Path(__file__).resolve().parents[3]
SCENES = Path(__file__).parent / "torch_autograd_scenes.py"
LIBRARY = BUILT / "libtorch_autograd.so"


@pytest.fixture(scope="module")
def scenes() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if not LIBRARY.exists():
        pytest.skip("the collector's test programs are not built")
    result = subprocess.run([sys.executable, str(SCENES), str(LIBRARY)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    readings: dict[str, Any] = json.loads(result.stdout)
    return readings


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


BLOCKED = """
import ctypes, os, signal
import torch

# An object of a type that is not there: nobody may look at it.
stale = (ctypes.c_uint64 * 8)(1 << 30, 1 << 16)
object_there = ctypes.cast(stale, ctypes.py_object).value
code = compile("class Module:\\n def _call_impl(self, leaf): leaf.clone()", "torch/nn/modules/module.py", "exec")
exec(code)
leaf = torch.ones(1, requires_grad=True)
leaf.clone()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV])
Module._call_impl(object_there, leaf)
print("lives", flush=True)
os._exit(0)
"""


def test_a_node_is_looked_at_where_faults_are_blocked(tmp_path: Path) -> None:
    """The walk to the node's module meets memory that is not there, in a thread that a fault would kill."""
    pytest.importorskip("torch", reason="torch is not installed")
    outcome = recorded([sys.executable, "-c", BLOCKED], tmp_path / "p", cpu_rate=0)
    assert (outcome.status, outcome.stdout) == (0, "lives\n"), outcome.stderr
