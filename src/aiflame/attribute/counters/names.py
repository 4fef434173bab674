"""The counters whose meaning is known."""

from __future__ import annotations

DRAM = ("dram-read-bytes", "dram-write-bytes")
L2 = ("l2-bytes",)
PCIE = ("pcie-read-bytes", "pcie-write-bytes")
NVLINK = ("nvlink-read-bytes", "nvlink-write-bytes")
CYCLES = "sm-cycles"
"""Cycles that elapsed."""
ACTIVE = "sm-active-cycles"
"""Cycles in which a multiprocessor held a warp, averaged over multiprocessors."""
TENSOR = "tensor-cycles"
"""Cycles in which its tensor pipe worked, averaged."""
WARPS = "warp-cycles"
"""Resident warps, summed over cycles, averaged over multiprocessors."""
