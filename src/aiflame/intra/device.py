"""CUDA's driver through ctypes: memory for records, and its way to the host, without the program's streams ever waiting for us.

Of a stream of the program's we ask one thing: an event behind the launch. A stream of our own waits for it, copies, clears the memory for
its next use and says by an event when it is done; that event is only ever asked, never waited for.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiflame.intra.errors import Refused

SLOT_UNIT = 2 << 20
_NON_BLOCKING, _DISABLE_TIMING, _RELAXED = 1, 2, 2
_NOT_READY = 600


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Refused("CUDA's driver is not there") from None


def _call(name: str, *arguments: Any) -> int:
    return int(getattr(_driver(), name)(*arguments))


def _must(name: str, *arguments: Any) -> None:
    status = _call(name, *arguments)
    if status:
        raise Refused(f"{name} failed ({status})")


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Some calls are forbidden while any stream is captured into a graph, and spoil the capture. Ours are of no concern to it."""
    mode = ctypes.c_int(_RELAXED)
    _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def is_captured(stream: int) -> bool:
    """Whether work on this stream goes into a graph now, or cannot be asked about because other work does."""
    status = ctypes.c_int(0)
    return _call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status)) != 0 or status.value != 0


def context() -> int:
    """The thread's, 0: none."""
    here = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(here))
    return here.value or 0


def device() -> int:
    here = ctypes.c_int(0)
    _call("cuCtxGetDevice", ctypes.byref(here))
    return here.value


@dataclass(slots=True)
class Slot:
    """Memory on the device and as much on the host, for one launch at a time."""

    bytes: int
    device: int
    host: int
    launched: ctypes.c_void_p
    """Event: the launch is over."""
    copied: ctypes.c_void_p
    """Event: what it left is on the host, and the memory is clear."""
    busy: bool = False

    def data_ptr(self) -> int:
        """As Triton's launchers ask memory for its address."""
        return self.device


@dataclass(slots=True)
class Pool:
    """Slots of one context, never more than `limit` bytes together."""

    limit: int
    slots: list[Slot] = field(default_factory=list)
    _stream: ctypes.c_void_p | None = None
    _other: ctypes.c_void_p | None = None
    """For what must not stand behind copies."""

    def take(self, size: int) -> Slot | None:
        """A free slot; None while there is none, or none so large may be."""
        fitting = sorted((slot for slot in self.slots if not slot.busy and slot.bytes >= size), key=lambda slot: slot.bytes)
        slot = fitting[0] if fitting else self._make(size)
        if slot is not None:
            slot.busy = True
        return slot

    def copy_out(self, slot: Slot, size: int, stream: int) -> None:
        """Behind what the program has put on its stream so far."""
        ours = self._stream
        _must("cuEventRecord", slot.launched, ctypes.c_void_p(stream))
        _must("cuStreamWaitEvent", ours, slot.launched, 0)
        _must("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(slot.host), ctypes.c_uint64(slot.device), ctypes.c_size_t(size), ours)
        _must("cuMemsetD8Async", ctypes.c_uint64(slot.device), ctypes.c_ubyte(0), ctypes.c_size_t(size), ours)
        _must("cuEventRecord", slot.copied, ours)

    def is_copied(self, slot: Slot) -> bool:
        status = _call("cuEventQuery", slot.copied)
        if status not in (0, _NOT_READY):
            raise Refused(f"records are lost: cuEventQuery failed ({status})")
        return status == 0

    def _make(self, size: int) -> Slot | None:
        size = -(-size // SLOT_UNIT) * SLOT_UNIT
        if sum(slot.bytes for slot in self.slots) + size > self.limit:
            return None
        if self._stream is None or self._other is None:
            self._stream, self._other = ctypes.c_void_p(), ctypes.c_void_p()
            for stream in (self._stream, self._other):
                _must("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        memory, host = ctypes.c_uint64(), ctypes.c_void_p()
        events = ctypes.c_void_p(), ctypes.c_void_p()
        if _call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size)):
            return None
        if _call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(size), 0):
            _call("cuMemFree_v2", memory)
            return None
        for event in events:
            _must("cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
        slot = Slot(size, memory.value, host.value or 0, *events)
        _must("cuMemsetD8Async", memory, ctypes.c_ubyte(0), ctypes.c_size_t(size), self._other)
        _must("cuStreamSynchronize", self._other)  # our own, with nothing else on it
        self.slots.append(slot)
        return slot


def bytes_at(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
