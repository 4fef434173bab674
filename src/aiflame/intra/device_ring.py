"""A ring of device memory: one piece of memory, mapped again and again in a range of addresses.

Kernels write the records of CTA n at n times their size. In such a range the addresses wrap by themselves, so a grid of any size fits. Two
addresses of one piece of memory are guaranteed to be coherent only after a kernel has ended; we do not read earlier, and a CTA only reads
data that it wrote at the same address.
"""

from __future__ import annotations

import ctypes

from aiflame.intra import driver
from aiflame.values import dataclass

MOST_ROUNDS = 4096
"""Addresses are reserved for this many rounds at once (256 GiB with pieces of 64 MiB), and mapped as grids need them."""
BEHIND = 1 << 31
"""In bytes. If Triton computes a CTA's offset in signed 32 bits, offsets of more than 2 GiB are negative; in 64 bits they are not."""
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
    """True if the thread's device can map memory at several addresses."""
    answer = ctypes.c_int(0)
    return driver.call("cuDeviceGetAttribute", ctypes.byref(answer), _IS_SUPPORTED, driver.device()) == 0 and answer.value != 0


@dataclass(slots=True)
class Ring:
    begin: int
    """The address to which CTA 0 writes."""
    bytes: int
    """Size of the piece: a power of two, so that an offset that wraps in 32 bits leads to the same place."""
    _piece: int
    _device: int
    rounds: int = 0
    """How many times the piece is mapped in a row, from `begin` on."""
    below: int = 0
    """How many times it is mapped before `begin`."""

    @staticmethod
    def make(most_bytes: int) -> Ring | None:
        """The largest ring of at most `most_bytes`; None if the driver refuses."""
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
        """Maps addresses for `size` bytes, False if that fails. Mappings stay: to remove them, we would have to wait for the device."""
        wanted = -(-size // self.bytes)
        if wanted > MOST_ROUNDS:
            return False
        if wanted > self.rounds:
            if not self._map(self.rounds, wanted - self.rounds):
                return False
            self.rounds = wanted
        if size > BEHIND and not self.below:
            below = BEHIND // self.bytes
            if not self._map(-below, below):
                return False
            self.below = below
        return True

    def give_back(self) -> None:
        """Frees the ring. No kernel may have been launched with it."""
        for first, count in ((0, self.rounds), (-self.below, self.below)):
            if count:
                driver.call("cuMemUnmap", self._at(first), ctypes.c_size_t(self.bytes * count))
        driver.call("cuMemAddressFree", ctypes.c_uint64(self.begin - BEHIND), ctypes.c_size_t(BEHIND + self.bytes * MOST_ROUNDS))
        driver.call("cuMemRelease", ctypes.c_uint64(self._piece))

    def _map(self, first: int, count: int) -> bool:
        """Maps the piece `count` times, from round `first` on, for the device to write; all of them or none."""
        piece, size, none = ctypes.c_uint64(self._piece), ctypes.c_size_t(self.bytes), ctypes.c_size_t(0)
        mapped = 0
        while mapped < count and driver.call("cuMemMap", self._at(first + mapped), size, none, piece, _NOTHING) == 0:
            mapped += 1
        access = _Access(_Location(_ON_DEVICE, self._device), _READ_WRITE)
        whole = ctypes.c_size_t(count * self.bytes)
        if mapped == count and driver.call("cuMemSetAccess", self._at(first), whole, ctypes.byref(access), ctypes.c_size_t(1)) == 0:
            return True
        if mapped:
            driver.call("cuMemUnmap", self._at(first), ctypes.c_size_t(mapped * self.bytes))
        return False

    def _at(self, number: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(self.begin + number * self.bytes)
