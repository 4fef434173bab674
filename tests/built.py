"""Programs that are compiled before the tests run (tests/collector/CMakeLists.txt)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BUILT = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", Path(__file__).parents[1] / "build/dev/tests/collector"))


def built(name: str) -> Path:
    """One of them, as `programs/life_loops` or `e2e/libspin.so`. Where `make test` has compiled all, none may be missing."""
    program = BUILT / name
    if not program.exists():
        missing = pytest.fail if "AIFLAME_TEST_PROGRAMS" in os.environ else pytest.skip
        missing(f"no {program}: `make build` compiles it")
    return program
