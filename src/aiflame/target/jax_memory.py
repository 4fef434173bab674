"""Records about once a second the memory that JAX's allocators have given out, as counters of the program (with --gpu-memory).

JAX takes most of a device at once and gives arrays out of that: the driver's allocations do not show how much is in use. Devices that were
not used yet are not asked, nor is the CPU, whose allocator keeps no count.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any

import _aiflame

GPU_MEMORY = 64
"""Feature.GPU_MEMORY"""
TABLE, DOMAIN = "counters", "JAX"
COUNTS = (("bytes_in_use", "bytes in use"), ("pool_bytes", "bytes of the pool"))
_failed = False


def tick() -> None:
    """In the main thread. An error ends it."""
    global _failed
    if _failed or not _aiflame.features & GPU_MEMORY:
        return
    try:
        for device, counts in statistics():
            for key, name in COUNTS:
                if isinstance(counts.get(key), int):
                    value = struct.unpack("<Q", struct.pack("<d", counts[key]))[0]
                    _aiflame.append(TABLE, 0, f"{device}: {name}", DOMAIN, value, _aiflame.now_ns())
    except Exception as error:
        _failed = True
        _aiflame.note(f"JAX: the memory of its allocators is not recorded ({type(error).__name__})")


def statistics() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of devices of this process. JAX's own questions for its devices would wait for a backend that is being started, or start it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    for client in list(getattr(bridge, "_backends", {}).values()):
        if client.platform == "cpu":
            continue
        for device in client.local_devices():
            counts = device.memory_stats()
            if counts:
                yield f"GPU {device.local_hardware_id}" if client.platform in ("gpu", "cuda", "rocm") else str(device), counts
