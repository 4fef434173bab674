"""Host memory of transformers' `generate()`: the bytes of its parameters and of its cache of keys and values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from guest import ENVIRONMENTS

import aiflame
from aiflame.analyze.top import top

PROGRAM = Path(__file__).with_name("programs") / "generates.py"
PYTHON = ENVIRONMENTS / "python/bin/python"


def test_the_cache_of_keys_and_values_has_its_bytes(tmp_path: Path) -> None:
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import torch, transformers"], capture_output=True, check=False).returncode:
        pytest.skip("torch, transformers are not all among the guests: make guests")
    path = tmp_path / "p.aiflame"
    options = ("-q", "--host-memory", "--host-memory-every", "64K", "-o", str(path))
    command = [sys.executable, "-m", "aiflame", "record", *options, "--", str(PYTHON), str(PROGRAM)]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert ended.returncode == 0, ended.stderr
    parameters, cache = map(int, ended.stdout.split())
    listed = top(aiflame.open(path).tree("host-bytes", by="category"), "category", "host-bytes")
    held = dict(listed.select("name", "self").rows())
    assert held["keys and values of attention"] == pytest.approx(cache, rel=0.05)
    assert held["parameters"] == pytest.approx(parameters, rel=0.05)
