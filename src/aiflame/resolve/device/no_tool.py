"""Notes of profiles that were sealed without a disassembler. When one is there later, the instructions are added."""

from __future__ import annotations

from aiflame.resolve.device.nvdisasm import NO_TOOL

AMD = (
    "no llvm-objdump here knows the instructions of this AMD GPU: samples in its kernels have source lines and offsets, no instructions; "
    "install ROCm's LLVM (rocm-llvm) or a newer one, then open the profile again"
)
NO_TOOLS = frozenset({NO_TOOL, AMD})
