"""`jax.profiler.save_device_memory_profile()`: a pprof profile of the arrays that live on devices at one moment, and of executables.

JAX's labels say which: `kind` is `buffer` or `executable`, `device` is `cuda:0`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HOST = "host"
KINDS = (("allocations", "count"), ("space", "bytes"))
COUNT, COUNT_LABEL = "objects", "arrays and executables"
"""The name of its counts here: allocations of a memory are those within the profile's time."""
LABELS = ("kind", "device")
_DEVICE = re.compile(r"(\w{1,40}):(\d{1,6})", re.ASCII)


def is_one(kinds: Sequence[tuple[str, str]], labels: Sequence[Mapping[str, str]]) -> bool:
    return tuple(kinds) == KINDS and any(memory_of(one) for one in labels)


def memory_of(labels: Mapping[str, str]) -> str:
    """`GPU 0`, `TPU 0`, or the host's memory for the arrays of a CPU; "" for executables."""
    device = _DEVICE.fullmatch(labels.get("device", "")) if labels.get("kind") == "buffer" else None
    if device is None:
        return ""
    platform, number = device.groups()
    if platform.lower() in ("cpu", "tfrt_cpu"):
        return HOST
    return f"{platform.upper() if platform.lower() == 'tpu' else 'GPU'} {int(number)}"
