"""Programs written down moment by moment, with what hardware counters counted while each kernel ran."""

from __future__ import annotations

from stories import Story
from written_programs import DEVICE

from aiflame.attribute.limits.kernels import ACTIVE, ELAPSED, READ, TENSOR, WARPS, WRITTEN
from aiflame.attribute.limits.peaks import peaks

MHZ = 1500
"""Of the multiprocessors."""
FULL = 64
"""Warps that one holds at once."""


class Counted(Story):
    """Each kernel fills its stretch of counters: what was counted is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.tables["gpu_counters"] = []

    def count(self, memory: float, tensor: float = 0.0, active: float = 1.0, warps: float = 0.5, device: str = DEVICE) -> None:
        """Shares of the peaks that the last kernel reached; a quarter of its bytes were written."""
        known = peaks(device)
        assert known is not None
        begin, end = self.kernels[-1]["start_ns"], self.kernels[-1]["end_ns"]
        cycles, moved = (end - begin) * MHZ / 1000, memory * known.memory * (end - begin) / 1e9
        values = {READ: 0.75 * moved, WRITTEN: 0.25 * moved, ELAPSED: cycles, TENSOR: tensor * cycles, ACTIVE: active * cycles}
        values[WARPS] = warps * FULL * active * cycles
        rows = [{"device": device, "metric": name, "begin_ns": begin, "end_ns": end, "value": round(value)} for name, value in values.items()]
        self.tables["gpu_counters"] += rows

