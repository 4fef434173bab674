"""Finds the GPUs of Linux's xe driver, and asks the driver about their graphics units (GTs) and its EU stall sampling.

The structs are those of Linux's include/uapi/drm/xe_drm.h, in C's layout on a 64-bit machine.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from pathlib import Path

from aiflame.recorder.sources.base import natural, text
from aiflame.values import dataclass

_QUERY = 3 << 30 | 40 << 16 | ord("d") << 8 | 0x40
"""DRM_IOCTL_XE_DEVICE_QUERY"""
_DEVICE_QUERY = struct.Struct("<QIIQ16x")
"""extensions, query, size, data"""
_GT_LIST, _EU_STALL = 3, 10
_COUNT = struct.Struct("<I4x")
_GT = struct.Struct("<HHH6xIQQHHH58x")
"""type, tile, id, clock, near and far memory, major and minor version, revision"""
_MAIN = 0
"""The type of a graphics unit that runs kernels; others encode video."""
_STALLS = struct.Struct("<QQQQ40xQ")
"""extensions, capabilities, bytes of a record, bytes of a core's buffer, number of rates (which follow)"""
_LARGEST_ANSWER = 1 << 20
_PONTE_VECCHIO = re.compile("8086:0B(69|6E|E5|D[0-9A-F])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Gpu:
    node: Path
    """`/dev/dri/renderD128`"""
    address: str
    """PCI address in lower case: `0000:03:00.0`"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A graphics unit that runs kernels."""

    number: int
    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sampling:
    """The driver's EU stall sampling, by its own account."""

    record_bytes: int
    buffer_bytes: int
    """of one core"""
    rates: tuple[int, ...]
    """the periods that it offers, in cycles"""


def gpus(root: Path = Path("/")) -> list[Gpu]:
    """The GPUs that the xe driver serves and for which there is a device file."""
    return [gpu for gpu, facts in _served(root) if facts.get("DRIVER") == "xe"]


def older_gpus(root: Path = Path("/")) -> list[Gpu]:
    """The GPUs of Ponte Vecchio that the older driver i915 serves; it serves no other that can sample stalls."""
    return [gpu for gpu, facts in _served(root) if facts.get("DRIVER") == "i915" and _PONTE_VECCHIO.fullmatch(facts.get("PCI_ID", ""))]


def _served(root: Path) -> list[tuple[Gpu, dict[str, str]]]:
    """With the kernel's facts about each."""
    served = []
    for entry in sorted((root / "sys/class/drm").glob("renderD*"), key=natural):
        facts = dict(re.findall(r"^(\w+)=(.*)$", text(entry / "device/uevent"), re.MULTILINE))
        node = root / "dev/dri" / entry.name
        if facts.get("PCI_SLOT_NAME") and node.exists():
            served.append((Gpu(node, facts["PCI_SLOT_NAME"].lower()), facts))
    return served


def units(device: int) -> list[Unit]:
    """`device`: a descriptor of the device file."""
    answer = _ask(device, _GT_LIST)
    (count,) = _COUNT.unpack_from(answer)
    rows = [_GT.unpack_from(answer, _COUNT.size + number * _GT.size) for number in range(count)]
    return [Unit(number, (major, minor)) for kind, _, number, _, _, _, major, minor, _ in rows if kind == _MAIN]


def sampling(device: int) -> Sampling | None:
    """None: this driver or this GPU has no EU stall sampling."""
    try:
        answer = _ask(device, _EU_STALL)
        _, _, record_bytes, buffer_bytes, count = _STALLS.unpack_from(answer)
        return Sampling(record_bytes, buffer_bytes, struct.unpack_from(f"<{count}Q", answer, _STALLS.size))
    except struct.error:
        return None
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP):
            return None
        raise


def _ask(device: int, query: int) -> bytes:
    """The first call learns the size of the answer, the second fetches it."""
    asked = bytearray(_DEVICE_QUERY.pack(0, query, 0, 0))
    fcntl.ioctl(device, _QUERY, asked)
    size = _DEVICE_QUERY.unpack(asked)[2]
    if not 0 < size <= _LARGEST_ANSWER:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    answer = ctypes.create_string_buffer(size)
    fcntl.ioctl(device, _QUERY, bytearray(_DEVICE_QUERY.pack(0, query, size, ctypes.addressof(answer))))
    return answer.raw
