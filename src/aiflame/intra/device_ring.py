"""A ring of the device's memory: one piece of it, behind itself again and again in a range of addresses.

Kernels write the records of CTA n at n times their size. In such a range they go round by themselves, and a grid of any size has a place.
Two addresses of one piece of memory are told to be coherent only when a kernel is over; nobody reads before that, and no CTA reads
what it did not write at the same address.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from aiflame.intra import driver

MOST_ROUNDS = 4096
"""Addresses are taken for so many at once (with pieces of 64 MiB: 256 GiB), and lead to the piece as grids need them."""
BEHIND = 1 << 31
"""Bytes. Triton counts a CTA's place in 32 bits with a sign: behind 2 GiB it is before the first one. Where it counts in 64, it goes on."""
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3
_IS_SUPPORTED = 102
"""CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"""
_NOTHING = ctypes.c_uint64(0)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp"""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc"""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def is_supported() -> bool:
    """By the thread's device."""
    answer = ctypes.c_int(0)
    return driver.call("cuDeviceGetAttribute", ctypes.byref(answer), _IS_SUPPORTED, driver.device()) == 0 and answer.value != 0


@dataclass(slots=True)
class Ring:
    begin: int
    """The address that CTA 0 writes to."""
    bytes: int
    """Of the piece: a power of two, so that where a place is counted in 32 bits, it is the same when these wrap."""
    _piece: int
    _device: int
    rounds: int = 0
    """How many times in a row addresses from its begin on lead to the piece by now."""
    below: int = 0
    """The same of those before its begin."""

    @staticmethod
    def make(most_bytes: int) -> Ring | None:
        """As large as may be; None: it cannot be."""
        on = driver.device()
        wanted = _Properties(type=_PINNED, location=_Location(_ON_DEVICE, on))
        unit = ctypes.c_size_t(0)
        if driver.call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(wanted), 0) or not unit.value:
            return None
        size = 1 << (min(most_bytes, BEHIND).bit_length() - 1)
        piece, begin = ctypes.c_uint64(0), ctypes.c_uint64(0)
        if size % unit.value or driver.call("cuMemCreate", ctypes.byref(piece), ctypes.c_size_t(size), ctypes.byref(wanted), _NOTHING):
            return None
        addresses = ctypes.c_size_t(BEHIND + size * MOST_ROUNDS)
        if driver.call("cuMemAddressReserve", ctypes.byref(begin), addresses, ctypes.c_size_t(0), _NOTHING, _NOTHING):
            driver.call("cuMemRelease", piece)
            return None
        return Ring(begin.value + BEHIND, size, piece.value, on)

    def reach(self, size: int) -> bool:
        """Whether so many bytes can be written. What leads to the piece stays: to take it away, the device would have to be waited for."""
        wanted = -(-size // self.bytes)
        if wanted > MOST_ROUNDS:
            return False
        if wanted > self.rounds:
            if not self._lead(self.rounds, wanted - self.rounds):
                return False
            self.rounds = wanted
        if size > BEHIND and not self.below:
            below = BEHIND // self.bytes
            if not self._lead(-below, below):
                return False
            self.below = below
        return True

    def give_back(self) -> None:
        """Nobody has written there."""
        for first, count in ((0, self.rounds), (-self.below, self.below)):
            if count:
                driver.call("cuMemUnmap", self._at(first), ctypes.c_size_t(self.bytes * count))
        driver.call("cuMemAddressFree", ctypes.c_uint64(self.begin - BEHIND), ctypes.c_size_t(BEHIND + self.bytes * MOST_ROUNDS))
        driver.call("cuMemRelease", ctypes.c_uint64(self._piece))

    def _lead(self, first: int, count: int) -> bool:
        """The addresses of so many rounds to the piece, for the device to write; all of them or none."""
        piece, size, none = ctypes.c_uint64(self._piece), ctypes.c_size_t(self.bytes), ctypes.c_size_t(0)
        done = 0
        while done < count and driver.call("cuMemMap", self._at(first + done), size, none, piece, _NOTHING) == 0:
            done += 1
        access = _Access(_Location(_ON_DEVICE, self._device), _READ_WRITE)
        whole = ctypes.c_size_t(count * self.bytes)
        if done == count and driver.call("cuMemSetAccess", self._at(first), whole, ctypes.byref(access), ctypes.c_size_t(1)) == 0:
            return True
        if done:
            driver.call("cuMemUnmap", self._at(first), ctypes.c_size_t(done * self.bytes))
        return False

    def _at(self, number: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(self.begin + number * self.bytes)
