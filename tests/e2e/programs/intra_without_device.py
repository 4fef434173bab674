"""Launches a Triton kernel five times, on a machine without a device: Triton's driver and CUDA's are fakes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "builders" / "intra"))

import intra_add
import triton
from intra_fakes import FakeCuda, FakeTriton


class Tensor:
    dtype = "fp32"

    def data_ptr(self) -> int:
        return 4096


driver = FakeTriton()
triton.runtime.driver.set_active(driver)
for number in range(5):
    if number == 0 and "aiflame.intra.driver" in sys.modules:
        sys.modules["aiflame.intra.driver"].call = FakeCuda()  # type: ignore[attr-defined]
    intra_add.add[(4,)](Tensor(), Tensor(), 4096, BLOCK=1024)
print(*("twin" if mode.startswith("aiflame_") else "plain" for mode in driver.launched))
