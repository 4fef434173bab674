"""Reads stall samples of one graphics unit by Level Zero's metric streamer. It needs the standard library alone.

It is a process of its own: the vendor's driver does not belong into the recorder, nor its metrics into the program. Run as `python
metric_streamer.py LOADER ADDRESS UNIT PERIOD`: the path of libze_loader, the GPU's PCI address, its unit's place among the sub-devices, and
the period as a power of two of cycles (0: the longest).

Output: a line of JSON, {"error": TEXT, "denied": BOOL, "exists": BOOL} or {"period": CYCLES, "metrics": NAMES}; then packets: HEAD, and
as many values as it says, those of NAMES again and again. Input: `e` and `d` begin and end sampling, which is on at first; its end is the
end.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from ctypes import byref, c_char, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

HEAD = struct.Struct("<IIQ")
"""Number of values, whether the GPU had no room for some samples, nanoseconds of this process since the packet before."""
PATIENCE_S = 5
"""A driver tries for ever to open a stream that another process has."""
_LEAVES_S = 0.3
"""That of a recording that has just ended may still be leaving."""
_GROUP = b"EuStallSampling"
_READ_S = 0.02
_LOOKS_S = 0.01
"""The kernel's driver looks at the GPU's buffers twice meanwhile."""
_EVERYTHING = 0xFFFFFFFF
_SUCCESS, _NOT_READY, _DROPPED = 0, 1, 0x70020001
_ERRORS = {
    0x70010000: "its driver lets administrators alone do so",
    0x70010001: "another program samples them, perhaps another rank of this job",
    0x70020000: "its driver lets administrators alone do so, or lacks a library for metrics",
    0x78000003: "its driver cannot",
}
_DENIED = (0x70010000, 0x70020000)
_CONTEXT, _DEVICE, _PCI, _GROUPS, _METRIC, _STREAMER = 0xD, 0x3, 0x10008, 0x1, 0x2, 0x4
"""Numbers of structures."""


class _Context(ctypes.Structure):
    _fields_ = [("type", c_uint32), ("next", c_void_p), ("flags", c_uint32)]


class _Device(ctypes.Structure):
    """ze_device_properties_t"""

    _fields_ = [
        ("type", c_uint32),
        ("next", c_void_p),
        ("numbers", c_uint32 * 6),
        ("largest_allocation", c_uint64),
        ("more_numbers", c_uint32 * 7),
        ("timer_resolution", c_uint64),
        ("rest", c_uint8 * 512),
    ]


class _Pci(ctypes.Structure):
    """ze_pci_ext_properties_t"""

    _fields_ = [("type", c_uint32), ("next", c_void_p), ("address", c_uint32 * 4), ("rest", c_uint8 * 64)]


class _Group(ctypes.Structure):
    _fields_ = [
        ("type", c_uint32),
        ("next", c_void_p),
        ("name", c_char * 256),
        ("description", c_char * 256),
        ("sampling", c_uint32),
        ("domain", c_uint32),
        ("metrics", c_uint32),
    ]


class _Metric(ctypes.Structure):
    _fields_ = [("type", c_uint32), ("next", c_void_p), ("name", c_char * 256), ("rest", c_uint8 * 1024)]


class _Streamer(ctypes.Structure):
    _fields_ = [("type", c_uint32), ("next", c_void_p), ("reports", c_uint32), ("period_ns", c_uint32)]


class _Value(ctypes.Structure):
    _fields_ = [("kind", c_uint32), ("value", c_uint64)]


class Refused(Exception):
    """Why nothing is sampled: the end of a sentence; `denied`: for lack of permission, as it seems; `exists`: there is such a unit."""

    def __init__(self, reason: str, *, denied: bool = False, exists: bool = True) -> None:
        super().__init__(reason)
        self.denied, self.exists = denied, exists


class LevelZero:
    def __init__(self, loader: str) -> None:
        try:
            self._library = ctypes.CDLL(loader)
        except OSError:
            raise Refused("Level Zero's loader (libze_loader) is not installed") from None
        self("zeInit", 0)

    def __call__(self, name: str, *arguments: object, accepted: tuple[int, ...] = (_SUCCESS,)) -> int:
        function = getattr(self._library, name, None)
        if function is None:
            raise Refused(f"Level Zero's loader has no {name}")
        result = int(function(*arguments)) & 0xFFFFFFFF
        if result not in accepted:
            raise Refused(_ERRORS.get(result, f"{name} fails with 0x{result:x}"), denied=result in _DENIED)
        return result

    def handles(self, name: str, *of: object) -> list[c_void_p]:
        count = c_uint32(0)
        self(name, *of, byref(count), None)
        handles = (c_void_p * count.value)()
        self(name, *of, byref(count), handles)
        return [c_void_p(one) for one in handles[: count.value]]


class Sampled:
    """A unit's stream of samples."""

    def __init__(self, ze: LevelZero, driver: c_void_p, device: c_void_p) -> None:
        self._ze, self._device, self._context, self._streamer = ze, device, c_void_p(), c_void_p()
        ze("zetDeviceEnableMetricsExp", device)
        ze("zeContextCreate", driver, byref(_Context(_CONTEXT)), byref(self._context))
        self._group, self.metrics = self._of_stalls()
        ze("zetContextActivateMetricGroups", self._context, device, c_uint32(1), byref(self._group))

    def _of_stalls(self) -> tuple[c_void_p, list[str]]:
        for group in self._ze.handles("zetMetricGroupGet", self._device):
            properties = _Group(_GROUPS)
            self._ze("zetMetricGroupGetProperties", group, byref(properties))
            if properties.name == _GROUP:
                return group, [self._name(metric) for metric in self._ze.handles("zetMetricGet", group)]
        raise Refused("its driver offers no stall samples")

    def _name(self, metric: c_void_p) -> str:
        properties = _Metric(_METRIC)
        self._ze("zetMetricGetProperties", metric, byref(properties))
        return str(properties.name.decode("ascii", "replace"))

    def begin(self, period_ns: int) -> int:
        """Begins to sample, unless it does; returns the period that the driver has chosen."""
        if self._streamer:
            return period_ns
        asked = _Streamer(_STREAMER, None, 1, min(period_ns, _EVERYTHING))
        signal.alarm(PATIENCE_S)
        self._ze("zetMetricStreamerOpen", self._context, self._device, self._group, byref(asked), None, byref(self._streamer))
        signal.alarm(0)
        return int(asked.period_ns)

    def end(self) -> None:
        if self._streamer:
            self._ze("zetMetricStreamerClose", self._streamer)
            self._streamer = c_void_p()

    def read(self) -> tuple[bytes, bool]:
        """Values, and whether some were lost."""
        if not self._streamer:
            return b"", False
        size = c_size_t(0)
        there = self._ze("zetMetricStreamerReadData", self._streamer, _EVERYTHING, byref(size), None, accepted=(_SUCCESS, _NOT_READY))
        if there == _NOT_READY or not size.value:
            return b"", False
        raw = (c_uint8 * size.value)()
        accepted = (_SUCCESS, _NOT_READY, _DROPPED)
        read = self._ze("zetMetricStreamerReadData", self._streamer, _EVERYTHING, byref(size), raw, accepted=accepted)
        if read == _NOT_READY or not size.value:
            return b"", False
        sets, many = c_uint32(0), c_uint32(0)
        calculate = "zetMetricGroupCalculateMultipleMetricValuesExp"
        of_raw = (self._group, 0, size, raw, byref(sets), byref(many))
        self._ze(calculate, *of_raw, None, None, accepted=(_SUCCESS, _DROPPED))
        values, of_set = (_Value * many.value)(), (c_uint32 * sets.value)()
        calculated = self._ze(calculate, *of_raw, of_set, values, accepted=(_SUCCESS, _DROPPED))
        return bytes(values)[: many.value * ctypes.sizeof(_Value)], _DROPPED in (read, calculated)


def device_at(ze: LevelZero, address: str, unit: int) -> tuple[c_void_p, c_void_p]:
    """The driver, and the unit's device."""
    for driver in ze.handles("zeDriverGet"):
        for device in ze.handles("zeDeviceGet", driver):
            properties = _Pci(_PCI)
            ze("zeDevicePciGetPropertiesExt", device, byref(properties))
            domain, bus, number, function = properties.address
            if f"{domain:04x}:{bus:02x}:{number:02x}.{function:x}" == address:
                units = ze.handles("zeDeviceGetSubDevices", device) or [device]
                if unit < len(units):
                    return driver, units[unit]
                raise Refused("it has no such unit", exists=False)
    raise Refused("Level Zero does not know it")


def claim(address: str, unit: int) -> socket.socket:
    """Held until this process ends: of several recordings one samples a unit."""
    claimed = socket.socket(socket.AF_UNIX)
    until = time.monotonic() + _LEAVES_S
    while not _is_bound(claimed, f"\0aiflame-stalls-{address}-{unit}"):
        if time.monotonic() > until:
            raise Refused(_ERRORS[0x70010001])
        time.sleep(0.02)
    return claimed


def _is_bound(claimed: socket.socket, name: str) -> bool:
    try:
        claimed.bind(name)
    except OSError:
        return False
    return True


def main(loader: str, address: str, unit: str, period: str) -> None:
    signal.alarm(PATIENCE_S)
    try:
        claimed = claim(address, int(unit))
        ze = LevelZero(loader)
        driver, device = device_at(ze, address, int(unit))
        properties = _Device(_DEVICE)
        ze("zeDeviceGetProperties", device, byref(properties))
        tick_ns = properties.timer_resolution or 1
        period_ns = (1 << int(period)) * tick_ns if int(period) else _EVERYTHING
        sampled = Sampled(ze, driver, device)
        chosen_ns = sampled.begin(period_ns)
    except Refused as refused:
        print(json.dumps({"error": str(refused), "denied": refused.denied, "exists": refused.exists}), flush=True)
        return
    print(json.dumps({"period": max(chosen_ns // tick_ns, 1), "metrics": sampled.metrics}), flush=True)
    with claimed:
        serve(sampled, period_ns)


def serve(sampled: Sampled, period_ns: int) -> None:
    used_ns = time.process_time_ns()
    while True:
        asked = os.read(0, 16) if select.select([0], [], [], _READ_S)[0] else None
        if asked == b"":
            signal.alarm(PATIENCE_S)
            time.sleep(_LOOKS_S)
        values, lost = sampled.read()
        if values or lost:
            before_ns, used_ns = used_ns, time.process_time_ns()
            packet = HEAD.pack(len(values) // ctypes.sizeof(_Value), lost, used_ns - before_ns) + values
            while packet:
                packet = packet[os.write(1, packet) :]
        if asked == b"":
            sampled.end()
            return
        if asked and asked.endswith(b"d"):
            sampled.end()
        elif asked:
            sampled.begin(period_ns)


if __name__ == "__main__":
    main(*sys.argv[1:])
