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
    """Its first address."""
    bytes: int
    """Of the piece."""
    rounds: int
    """How many times in a row its addresses lead to it by now."""
    _piece: int
    _device: int

    @staticmethod
    def make(most_bytes: int) -> Ring | None:
        """As large as may be, of what the device gives out; None: it cannot be."""
        on = driver.device()
        wanted = _Properties(type=_PINNED, location=_Location(_ON_DEVICE, on))
        unit = ctypes.c_size_t(0)
        if driver.call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(wanted), 0) or not unit.value:
            return None
        size = most_bytes // unit.value * unit.value
        piece, begin = ctypes.c_uint64(0), ctypes.c_uint64(0)
        if not size or driver.call("cuMemCreate", ctypes.byref(piece), ctypes.c_size_t(size), ctypes.byref(wanted), _NOTHING):
            return None
        range_bytes = ctypes.c_size_t(size * MOST_ROUNDS)
        if driver.call("cuMemAddressReserve", ctypes.byref(begin), range_bytes, ctypes.c_size_t(0), _NOTHING, _NOTHING):
            driver.call("cuMemRelease", piece)
            return None
        return Ring(begin.value, size, 0, piece.value, on)

    def reach(self, size: int) -> bool:
        """Whether so many bytes from its begin can be written. What leads to the piece stays: to take it away, the device would have to
        be waited for."""
        wanted = -(-size // self.bytes)
        if wanted > MOST_ROUNDS:
            return False
        first = self.rounds
        while self.rounds < wanted and self._go_on():
            self.rounds += 1
        if self.rounds > first and not self._open(first):
            self.rounds = first
        return self.rounds >= wanted

    def give_back(self) -> None:
        """Nobody has written there."""
        if self.rounds:
            driver.call("cuMemUnmap", ctypes.c_uint64(self.begin), ctypes.c_size_t(self.bytes * self.rounds))
        driver.call("cuMemAddressFree", ctypes.c_uint64(self.begin), ctypes.c_size_t(self.bytes * MOST_ROUNDS))
        driver.call("cuMemRelease", ctypes.c_uint64(self._piece))

    def _go_on(self) -> bool:
        at, size = ctypes.c_uint64(self.begin + self.rounds * self.bytes), ctypes.c_size_t(self.bytes)
        return driver.call("cuMemMap", at, size, ctypes.c_size_t(0), ctypes.c_uint64(self._piece), _NOTHING) == 0

    def _open(self, first: int) -> bool:
        """The device may write there, from round `first` on."""
        at, size = ctypes.c_uint64(self.begin + first * self.bytes), ctypes.c_size_t((self.rounds - first) * self.bytes)
        access = _Access(_Location(_ON_DEVICE, self._device), _READ_WRITE)
        if driver.call("cuMemSetAccess", at, size, ctypes.byref(access), ctypes.c_size_t(1)) == 0:
            return True
        driver.call("cuMemUnmap", at, size)
        return False
