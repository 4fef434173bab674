"""How many blocks of a kernel a multiprocessor holds at once: limits of NVIDIA's devices, from the CUDA C++ Programming Guide ("Technical
Specifications per Compute Capability") and the data sheets."""

from __future__ import annotations

import re

from aiflame.attribute.limits.peaks import OTHERS
from aiflame.values import dataclass

WARP = 32
_REGISTERS = 1 << 16
"""Registers of a multiprocessor, since compute capability 5.0. A warp gets them in units of 256, from the quarter in which it runs."""
_UNIT, _QUARTERS = 256, 4
_RESERVED = 1024
"""Bytes of shared memory that the system reserves for each block, since 8.0."""


@dataclass(frozen=True, slots=True)
class Device:
    multiprocessors: int
    threads: int
    """The most threads on a multiprocessor; the following fields are limits of a multiprocessor, too."""
    blocks: int
    shared: int
    """In bytes."""
    host_rate: float
    """GB/s of a copy from pinned memory, over the slowest bus with which the device is sold."""
    memory_bytes: float
    """Bytes in a cycle that each multiprocessor gets from the device's memory, at the usual clock."""
    tensor_cores_32: bool = True
    """Its tensor cores can multiply float32 (as TF32)."""

    @property
    def warps(self) -> int:
        return self.threads // WARP


@dataclass(frozen=True, slots=True)
class Residency:
    blocks: int
    """Blocks on one multiprocessor at once."""
    warps: int
    limited_by: str
    """`registers`, `shared` or `block` (its size, or the number of blocks)."""


def _kib(size: int) -> int:
    return size << 10


_DEVICES = (
    (r"\b(G?B200|B100)\b", Device(148, 2048, 32, _kib(228), 50, 27.5)),
    (r"\b(H100|H800) PCIe\b", Device(114, 2048, 32, _kib(228), 50, 10.0)),
    (r"\b(H100|H200|H800|GH200)\b", Device(132, 2048, 32, _kib(228), 50, 14.5)),
    (r"\b(A100|A800)\b", Device(108, 2048, 32, _kib(164), 22, 10.2)),
    (r"\bA30\b", Device(56, 2048, 32, _kib(164), 22, 11.6)),
    (r"\b(A40|A6000)\b", Device(84, 1536, 16, _kib(100), 22, 4.8)),
    (r"\bA10G\b", Device(80, 1536, 16, _kib(100), 22, 4.4)),
    (r"\bA10\b", Device(72, 1536, 16, _kib(100), 22, 4.9)),
    (r"\b(L40S?|6000 Ada)\b", Device(142, 1536, 24, _kib(100), 22, 2.4)),
    (r"\bL4\b", Device(58, 1536, 24, _kib(100), 11, 2.5)),
    (r"\bRTX 5090\b", Device(170, 1536, 24, _kib(100), 22, 4.4)),
    (r"\bRTX 4090\b", Device(128, 1536, 24, _kib(100), 22, 3.1)),
    (r"\bRTX 3090\b", Device(82, 1536, 16, _kib(100), 22, 6.7)),
    (r"\bV100\b", Device(80, 2048, 32, _kib(96), 11, 7.4, tensor_cores_32=False)),
    (r"\bT4\b", Device(40, 1024, 16, _kib(64), 11, 5.0, tensor_cores_32=False)),
)


def device(name: str) -> Device | None:
    """The limits of a device by the driver's name for it; None for a device that is not listed, for a part of one (MIG), and for
    another one of nearly its name."""
    if OTHERS.search(name):
        return None
    return next((limits for pattern, limits in _DEVICES if re.search(pattern, name)), None)


def residency(limits: Device, threads: int, registers: int, shared: int) -> Residency | None:
    """How many blocks of this many threads, registers for each thread and bytes of shared memory fit; None if not even one fits."""
    warps = -(-threads // WARP)
    if not warps:
        return None
    of_warp = -(-registers * WARP // _UNIT) * _UNIT
    by_registers = _REGISTERS // _QUARTERS // of_warp * _QUARTERS // warps if of_warp else limits.blocks
    by_shared = limits.shared // (shared + _RESERVED)
    by_block = min(limits.warps // warps, limits.blocks)
    blocks = min(by_block, by_registers, by_shared)
    limited_by = "block" if blocks == by_block else "registers" if blocks == by_registers else "shared"
    return Residency(blocks, blocks * warps, limited_by) if blocks > 0 else None
