"""Chooses whether freed memory stays with the process or goes back to the system. Works with glibc, and does nothing elsewhere."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""


def keep_freed_memory() -> None:
    """For commands that make many large tables one after the other. By default glibc returns each large block to the system when it is
    freed, and requests the next: in a report of ten million kernels a third of the time was page faults."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, 512 << 20)


def give_back_freed_memory() -> None:
    """Returns freed memory to the system, between parts of the work that need different tables: the next part could not reuse the
    pieces."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
