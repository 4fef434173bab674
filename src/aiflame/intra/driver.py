"""CUDA's driver through ctypes: its calls, the thread's context, and the state of captured streams."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

from aiflame.intra.errors import Refused

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED"""


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Refused("CUDA's driver is not there") from None


def call(name: str, *arguments: Any) -> int:
    return int(getattr(_driver(), name)(*arguments))


def must(name: str, *arguments: Any) -> None:
    status = call(name, *arguments)
    if status:
        raise Refused(f"{name} failed ({status})")


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Allows calls that CUDA forbids while any stream is captured into a graph: ours do not affect the capture."""
    mode = ctypes.c_int(_RELAXED)
    call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def is_captured(stream: int) -> bool:
    """True if this stream is being captured into a graph, or cannot be queried because another capture is going on."""
    status = ctypes.c_int(0)
    return call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status)) != 0 or status.value != 0


def context() -> tuple[int, int]:
    """The thread's context: its address (0: none), and its unique number in the process (0: the driver does not support it).

    A new context may have the address of a destroyed one."""
    here, number = ctypes.c_void_p(), ctypes.c_uint64(0)
    call("cuCtxGetCurrent", ctypes.byref(here))
    with contextlib.suppress(AttributeError):  # before CUDA 12.0
        call("cuCtxGetId", here, ctypes.byref(number))
    return here.value or 0, number.value


def device() -> int:
    here = ctypes.c_int(0)
    call("cuCtxGetDevice", ctypes.byref(here))
    return here.value
