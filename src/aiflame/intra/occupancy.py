"""How many CTAs of a kernel fit on a multiprocessor, and how much more shared memory each may use without reducing that number.

Limits by compute capability: CUDA C Programming Guide, technical specifications; allocation: NVIDIA's occupancy calculator.
"""

from __future__ import annotations

REGISTERS = 65536
"""Registers of a multiprocessor, in every NVIDIA GPU since Volta."""
MOST_WARPS = {"70": 64, "75": 32, "80": 64, "86": 48, "87": 48, "89": 48, "90": 64, "100": 64, "103": 64, "120": 48, "121": 48}
MOST_CTAS = {"75": 16, "86": 16, "87": 16, "89": 24, "120": 24, "121": 24}
"""Other GPUs: 32."""
SHARED = {"70": 96, "75": 64, "80": 164, "86": 100, "87": 164, "89": 100, "90": 228, "100": 228, "103": 228, "120": 100, "121": 100}
"""KiB of a multiprocessor."""
RESERVED_SHARED = 1024
"""Bytes of each CTA that the system reserves, from compute capability 8.0 on."""
UNIT_OF_SHARED = 128
"""Unit of allocation, in bytes."""


def at_once(capability: str, threads: int, registers: int, shared: int) -> int:
    """The number of CTAs that fit on a multiprocessor; -1: unknown."""
    if capability not in SHARED or registers < 0 or shared < 0 or threads <= 0:
        return -1
    warps = -(-threads // 32)
    # Registers are allocated per warp, in units of 256, each warp in one of four partitions.
    of_warp = -(-max(registers, 16) * 32 // 256) * 256
    by_registers = REGISTERS // of_warp // 4 * 4 // warps
    most = MOST_CTAS.get(capability, 32)
    of_cta_bytes = _rounded(shared) + _reserved(capability)
    by_shared = SHARED[capability] * 1024 // of_cta_bytes if of_cta_bytes else most
    return max(min(by_registers, by_shared, MOST_WARPS[capability] // warps, most), 0)


def spare_shared(capability: str, threads: int, registers: int, shared: int) -> int:
    """Bytes of shared memory that each CTA may use in addition, so that as many CTAs fit as before; 0 if unknown.

    A multiprocessor uses the remaining memory as cache. Kernels that keep their data in shared memory hardly need a cache, so all free
    memory is spare; for other kernels, at most a quarter of the whole."""
    fit = at_once(capability, threads, registers, shared)
    if fit <= 0:
        return 0
    whole = SHARED[capability] * 1024
    each = min(whole // fit - _reserved(capability), of_cta(capability)) - _rounded(shared)
    if shared * fit < whole // 4:
        each = min(each, whole // 4 // fit)
    return max(each // UNIT_OF_SHARED * UNIT_OF_SHARED, 0)


def of_cta(capability: str) -> int:
    """Bytes of shared memory that a CTA may have; an unknown device counts as compute capability 9.0."""
    nearest = capability if capability in SHARED else "90"
    return SHARED[nearest] * 1024 - _reserved(nearest)


def _rounded(shared: int) -> int:
    return -(-shared // UNIT_OF_SHARED) * UNIT_OF_SHARED


def _reserved(capability: str) -> int:
    return RESERVED_SHARED if int(capability) >= 80 else 0
