"""An EU stall stream of the xe driver: one graphics unit's samples, as records of 64 bytes.

The driver (Linux's xe_eu_stall.c) gives one stream of a unit to one process at a time, to everybody where
`/proc/sys/dev/xe/observation_paranoid` is 0, else to holders of CAP_PERFMON. It looks at the GPU's buffers every 5 ms; a read returns the
records that it saw there, EAGAIN if it saw none, and once EIO if the GPU had no room for samples.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.recorder.eu_stalls.records import Counts, Layout

_OBSERVE = 1 << 30 | 32 << 16 | ord("d") << 8 | 0x4B
"""DRM_IOCTL_XE_OBSERVATION"""
_ENABLE, _DISABLE = ord("i") << 8, ord("i") << 8 | 1
_REQUEST = struct.Struct("<QQQQ")
"""extensions, type of the observation, operation, address of the first property"""
_STALLS, _OPEN = 1, 0
_PROPERTY = struct.Struct("<QIIIIQ16x")
"""address of the next property, name of the extension, padding, property, padding, value"""
_UNIT, _PERIOD, _REPORTS = 1, 2, 3
POLL_S = 0.005
"""The driver looks at the GPU's buffers so often."""
_AT_ONCE = 1 << 20
_MOST_READS = 256


class XeStream:
    """Raises OSError: EACCES without the permission, EBUSY while another process has it."""

    late_ns = 2 * int(POLL_S * 1e9)

    def __init__(self, device: int, unit: int, period: int, reports: int, layout: Layout | None = None) -> None:
        """`reports`: the number of records at which a poll returns. `layout`: of the records, where it is known."""
        self._layout = layout
        values = ((_UNIT, unit), (_PERIOD, period), (_REPORTS, reports))
        memory = ctypes.create_string_buffer(_PROPERTY.size * len(values))
        first = ctypes.addressof(memory)
        for place, (name, value) in enumerate(values):
            following = first + _PROPERTY.size * (place + 1) if place + 1 < len(values) else 0
            _PROPERTY.pack_into(memory, _PROPERTY.size * place, following, 0, 0, name, 0, value)
        self._descriptor: int = fcntl.ioctl(device, _OBSERVE, bytearray(_REQUEST.pack(0, _STALLS, _OPEN, first)))
        # The driver makes the descriptor without close-on-exec, whatever one asks for.
        os.set_inheritable(self._descriptor, False)
        os.set_blocking(self._descriptor, False)

    def fileno(self) -> int:
        return self._descriptor

    def enable(self) -> None:
        fcntl.ioctl(self._descriptor, _ENABLE, 0)

    def disable(self) -> None:
        """The GPU samples no more; samples that were not read are lost."""
        fcntl.ioctl(self._descriptor, _DISABLE, 0)

    def read(self) -> tuple[bytes, int]:
        """All records that are there, and how often the driver said that samples were lost."""
        parts, lost = list[bytes](), 0
        for _ in range(_MOST_READS):
            try:
                parts.append(os.read(self._descriptor, _AT_ONCE))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                lost += 1
                continue
            if len(parts[-1]) < _AT_ONCE:
                break
        return b"".join(parts), lost

    def decode(self, samples: bytes) -> Counts:
        from aiflame.recorder.eu_stalls.records import decode

        assert self._layout is not None
        return decode(samples, self._layout)

    def drain(self) -> None:
        """The driver looks at the GPU's buffers once more meanwhile."""
        time.sleep(self.late_ns / 1e9)

    def used_ns(self) -> int:
        return 0

    def close(self) -> None:
        os.close(self._descriptor)
