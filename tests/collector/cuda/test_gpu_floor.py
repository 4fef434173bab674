"""CUPTI by itself, the baseline of our overhead (benchmarks/gpu/gpu_floor.c): does it ask for what a recording asks? On the strict fake."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from live import plain

from built import BUILT, built

FAKES = BUILT / "fake_cuda"
PROGRAM = Path(__file__).parents[2] / "e2e" / "programs" / "fake_gpu_sampling.py"

pytestmark = pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it")


@pytest.mark.parametrize("sampling", [{}, {"FLOOR_SAMPLING": "200"}], ids=["unsampled", "sampled"])
@pytest.mark.parametrize(("seconds", "complaint"), [("1.5", ""), ("0", "floor: no sample came\n")])
def test_samples_come_where_they_are_asked_for(sampling: dict[str, str], seconds: str, complaint: str, tmp_path: Path) -> None:
    env = {
        "CUDA_INJECTION64_PATH": str(built("fake_cuda/libfloor.so")),
        "FLOOR_CUPTI": str(FAKES / "cupti13" / "libcupti.so.13"),
        "LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}",
    }
    outcome = plain([sys.executable, PROGRAM, "steady", seconds], tmp_path, env={**env, **sampling})
    assert (outcome.status, outcome.stderr) == (0, complaint if sampling else "")
