"""The counters whose meaning aiflame knows, and the metrics of trees that are sums of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiflame.attribute.metrics import is_own_counter
from aiflame.attribute.tree import DRAM_BYTES, L2_BYTES, NVLINK_BYTES, PCIE_BYTES, SM_ACTIVITY, TENSOR

DRAM = ("dram-read-bytes", "dram-write-bytes")
L2 = ("l2-bytes",)
PCIE = ("pcie-read-bytes", "pcie-write-bytes")
NVLINK = ("nvlink-read-bytes", "nvlink-write-bytes")
CYCLES = "sm-cycles"
"""Elapsed cycles."""
ACTIVE_CYCLES = "sm-active-cycles"
"""Cycles in which a multiprocessor held a warp, averaged over multiprocessors."""
TENSOR_CYCLES = "tensor-cycles"
"""Cycles in which the tensor pipe worked, averaged over multiprocessors."""
WARP_CYCLES = "warp-cycles"
"""Resident warps, summed over cycles and averaged over multiprocessors."""
AS_TIME: Mapping[str, str] = {ACTIVE_CYCLES: "sm-active-ns", TENSOR_CYCLES: "tensor-ns"}
"""Cycles, and the name of the same as time: a stretch of 1 ms with a third of the cycles that elapsed is 333 µs."""
NOT_OURS = "[nothing of this program]"
"""Counts of moments in which nothing of the program ran."""
KNOWN = (*DRAM, *L2, *PCIE, *NVLINK, CYCLES, ACTIVE_CYCLES, TENSOR_CYCLES, WARP_CYCLES)

COUNTED: Mapping[str, Collection[str]] = {
    DRAM_BYTES.name: DRAM,
    L2_BYTES.name: L2,
    PCIE_BYTES.name: PCIE,
    NVLINK_BYTES.name: NVLINK,
    TENSOR.name: (AS_TIME[TENSOR_CYCLES],),
    SM_ACTIVITY.name: (AS_TIME[ACTIVE_CYCLES],),
}
"""For each metric of trees the counters whose sum it is."""


def counters_of(metric: str) -> Collection[str]:
    """The counters whose sum a metric of trees is; a user's own is one itself."""
    return COUNTED.get(metric, (metric,))


def is_counted(metric: str) -> bool:
    return metric in COUNTED or is_own_counter(metric)
