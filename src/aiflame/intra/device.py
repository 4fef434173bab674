"""Memory for records, and its copies to the host. The program's streams never wait for us.

On a stream of the program we only record an event after the launch. A stream of our own waits for it, copies, clears the memory for its
next use and records a second event; we poll that event and never wait for it.
"""

from __future__ import annotations

import ctypes

from aiflame.intra import driver
from aiflame.intra.device_ring import BEHIND, MOST_ROUNDS, Ring
from aiflame.intra.errors import Refused
from aiflame.values import dataclass, field

SLOT_UNIT = 2 << 20
_NON_BLOCKING, _DISABLE_TIMING = 1, 2
_NOT_READY = 600


@dataclass(slots=True)
class Slot:
    """Memory on the device and as much on the host, for one launch at a time."""

    bytes: int
    device: int
    host: int
    launched: ctypes.c_void_p
    """Event: the launch is over."""
    copied: ctypes.c_void_p
    """Event: its records are on the host, and the memory is clear."""
    ring: Ring | None = None
    """The ring, if the memory is one: launches may write more than its size, and then overwrite it from the start."""
    busy: bool = False

    def data_ptr(self) -> int:
        """The address; Triton's launchers call this method."""
        return self.device

    def has_room(self, size: int) -> bool:
        return self.bytes >= size or (self.ring is not None and self.ring.reach(size))


@dataclass(slots=True)
class Pool:
    """Slots of one context, at most `limit` bytes together. Launches that write more than `most` bytes get a ring of that size, if the
    device supports it."""

    limit: int
    most: int
    context: int = 0
    """The number of the context."""
    gone: bool = False
    """True if the context was destroyed with all its events and memory: not even an event may be queried."""
    slots: list[Slot] = field(default_factory=list)
    _stream: ctypes.c_void_p | None = None
    _other: ctypes.c_void_p | None = None
    """A stream for work that must not queue behind copies."""

    def take(self, size: int) -> Slot | None:
        """A free slot; None if all are busy, or the size is above the limit."""
        free = sorted((slot for slot in self.slots if not slot.busy), key=lambda slot: (slot.ring is not None, slot.bytes))
        slot = next((one for one in free if one.has_room(size)), None) or self._make(size)
        if slot is not None:
            slot.busy = True
        return slot

    def copy_out(self, slot: Slot, size: int, stream: int) -> None:
        """Copies the records once the work that is now on the program's stream has finished."""
        ours = self._stream
        driver.must("cuEventRecord", slot.launched, ctypes.c_void_p(stream))
        driver.must("cuStreamWaitEvent", ours, slot.launched, 0)
        driver.must("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(slot.host), ctypes.c_uint64(slot.device), ctypes.c_size_t(size), ours)
        driver.must("cuMemsetD8Async", ctypes.c_uint64(slot.device), ctypes.c_ubyte(0), ctypes.c_size_t(size), ours)
        driver.must("cuEventRecord", slot.copied, ours)

    def is_copied(self, slot: Slot) -> bool:
        if self.gone:
            raise Refused("records are lost: their context was destroyed")
        status = driver.call("cuEventQuery", slot.copied)
        if status not in (0, _NOT_READY):
            raise Refused(f"records are lost: cuEventQuery failed ({status})")
        return status == 0

    def _make(self, size: int) -> Slot | None:
        """A new slot. The last one within the limit is a ring, which has room for all later launches."""
        left = self.limit - sum(slot.bytes for slot in self.slots)
        as_slot = -(-size // SLOT_UNIT) * SLOT_UNIT
        if size > self.most or left - as_slot < self.most:
            ring = Ring.make(self.most) if left >= self.most and size <= MOST_ROUNDS * self.most else None
            if ring is not None and ring.reach(size):
                return self._with_host(ring.bytes, ring.begin, ring)
            if ring is not None:
                ring.give_back()
        memory = ctypes.c_uint64()
        if as_slot > min(left, BEHIND) or driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(as_slot)):
            return None
        return self._with_host(as_slot, memory.value, None)

    def _with_host(self, size: int, memory: int, ring: Ring | None) -> Slot | None:
        """The slot with its host memory and events; None, with everything freed, if one cannot be allocated."""
        host = ctypes.c_void_p()
        try:
            self._make_streams()
            driver.must("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(size), 0)
            slot = Slot(size, memory, host.value or 0, _event(), _event(), ring)
            driver.must("cuMemsetD8Async", ctypes.c_uint64(memory), ctypes.c_ubyte(0), ctypes.c_size_t(size), self._other)
            driver.must("cuStreamSynchronize", self._other)  # our own, with nothing else on it
        except Refused:
            if host.value:
                driver.call("cuMemFreeHost", host)
            if ring is not None:
                ring.give_back()
            else:
                driver.call("cuMemFree_v2", ctypes.c_uint64(memory))
            return None
        self.slots.append(slot)
        return slot

    def _make_streams(self) -> None:
        """Makes our own streams, since stream 0 belongs to the program."""
        if self._stream is None:
            self._stream = _stream()
        if self._other is None:
            self._other = _stream()


@dataclass(slots=True)
class Pools:
    """The pool of each context."""

    limit: int
    most: int
    _by_address: dict[int, Pool] = field(default_factory=dict)

    def here(self) -> Pool:
        """The pool of the thread's context. Another context at the same address must have been destroyed."""
        address, number = driver.context()
        pool = self._by_address.get(address)
        if pool is None or pool.context != number:
            if pool is not None:
                pool.gone = True
            pool = self._by_address[address] = Pool(self.limit, self.most, number)
        return pool


def _stream() -> ctypes.c_void_p:
    stream = ctypes.c_void_p()
    driver.must("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    return stream


def _event() -> ctypes.c_void_p:
    event = ctypes.c_void_p()
    driver.must("cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
    return event


def bytes_at(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
