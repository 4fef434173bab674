"""The functions of NVIDIA's management library that we use, through ctypes: recording needs only the driver.

Numbers of functions, fields and layouts come from nvml.h. Values that a device does not report are NaN.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from enum import IntEnum

LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_ALL_LINKS = 0xFFFFFFFF
_TEMPERATURE_GPU = 0
_MOST_PROCESSES = 256
_NOT_AVAILABLE = (1 << 64) - 1


class Field(IntEnum):
    """NVML_FI_DEV_…"""

    NVLINK_SENT = 138
    """KiB of data, over all links"""
    NVLINK_RECEIVED = 139
    POWER_INSTANT = 186
    """mW. On most devices nvmlDeviceGetPowerUsage gives the mean of a second, and takes 3 ms."""
    PCIE_SENT = 197
    """bytes; read in less than a millisecond, whereas nvmlDeviceGetPcieThroughput measures for 20"""
    PCIE_RECEIVED = 198


class Clock(IntEnum):
    SM = 1
    MEMORY = 2


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t"""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class _Value(ctypes.Union):
    _fields_ = [
        ("double", ctypes.c_double),
        ("uint", ctypes.c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", ctypes.c_ulonglong),
        ("longlong", ctypes.c_longlong),
        ("int", ctypes.c_int),
    ]


_VALUE_TYPES = ("double", "uint", "ulong", "ulonglong", "longlong", "int")
_UINT = 1


class _FieldValue(ctypes.Structure):
    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", _Value),
    ]


class Nvml:
    """The initialized library; OSError if it is missing or does not work."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        status = int(self._library.nvmlInit_v2())
        if status != _SUCCESS:
            raise OSError(f"NVML does not start (error {status})")

    def devices(self) -> list[Device]:
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS:
            return []
        result = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            # A device that this process may not use has no handle.
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == _SUCCESS:
                result.append(Device(self._library, handle, index))
        return result

    def close(self) -> None:
        self._library.nvmlShutdown()


class Device:
    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p, index: int) -> None:
        self._library, self._handle, self.index = library, handle, index
        self._uint, self._ulonglong = ctypes.c_uint(), ctypes.c_ulonglong()
        self._utilization, self._memory = _Utilization(), _Memory()
        self._processes = (_Process * _MOST_PROCESSES)()
        self.name = self._text("nvmlDeviceGetName", 96)
        self.uuid = self._text("nvmlDeviceGetUUID", 96)

    def pci(self) -> str:
        """`00000000:1B:00.0`"""
        address = _Pci()
        return address.bus_id.decode(errors="replace") if self._ask("nvmlDeviceGetPciInfo_v3", address) else ""

    def energy(self) -> float:
        """mJ since the driver was loaded"""
        return float(self._ulonglong.value) if self._ask("nvmlDeviceGetTotalEnergyConsumption", self._ulonglong) else math.nan

    def power(self) -> float:
        """mW"""
        return float(self._uint.value) if self._ask("nvmlDeviceGetPowerUsage", self._uint) else math.nan

    def utilization(self) -> tuple[float, float]:
        """Percent of the latest moments in which a kernel ran, and in which memory was read or written"""
        if not self._ask("nvmlDeviceGetUtilizationRates", self._utilization):
            return math.nan, math.nan
        return float(self._utilization.gpu), float(self._utilization.memory)

    def memory_used(self) -> float:
        return float(self._memory.used) if self._ask("nvmlDeviceGetMemoryInfo", self._memory) else math.nan

    def processes(self) -> dict[int, float] | None:
        """Bytes of each process that computes on the device, by its number, which in a container may be that of the host. None: more than
        _MOST_PROCESSES, or the driver does not say."""
        function, count, rows = self._function("nvmlDeviceGetComputeRunningProcesses_v3"), ctypes.c_uint(_MOST_PROCESSES), self._processes
        if function is None or function(self._handle, ctypes.byref(count), ctypes.byref(rows)) != _SUCCESS:
            return None
        used: dict[int, float] = {}
        for row in rows[: count.value]:
            if row.used != _NOT_AVAILABLE:
                used[row.pid] = used.get(row.pid, 0.0) + row.used  # one in several instances has a row for each
        return used

    def temperature(self) -> float:
        function = self._function("nvmlDeviceGetTemperature")
        answered = function is not None and function(self._handle, _TEMPERATURE_GPU, ctypes.byref(self._uint)) == _SUCCESS
        return float(self._uint.value) if answered else math.nan

    def clock(self, of: Clock) -> float:
        """MHz"""
        function = self._function("nvmlDeviceGetClockInfo")
        answered = function is not None and function(self._handle, int(of), ctypes.byref(self._uint)) == _SUCCESS
        return float(self._uint.value) if answered else math.nan

    def fields(self, of: Sequence[Field]) -> list[tuple[float, bool]]:
        """The value of each field, and whether it is a 32-bit counter, which wraps."""
        asked = (_FieldValue * len(of))()
        for one, field in zip(asked, of, strict=True):
            one.field, one.scope = int(field), _ALL_LINKS if field in (Field.NVLINK_SENT, Field.NVLINK_RECEIVED) else 0
        function = self._function("nvmlDeviceGetFieldValues")
        if function is None or function(self._handle, len(of), ctypes.byref(asked)) != _SUCCESS:
            return [(math.nan, False)] * len(of)
        return [(_number(one), one.type == _UINT) for one in asked]

    def _ask(self, function: str, answer: ctypes.Structure | ctypes.c_uint | ctypes.c_ulonglong) -> bool:
        entry = self._function(function)
        return entry is not None and entry(self._handle, ctypes.byref(answer)) == _SUCCESS

    def _text(self, function: str, size: int) -> str:
        buffer, entry = ctypes.create_string_buffer(size), self._function(function)
        return buffer.value.decode(errors="replace") if entry is not None and entry(self._handle, buffer, size) == _SUCCESS else ""

    def _function(self, name: str) -> ctypes._NamedFuncPointer | None:
        """None: this driver is older than the function."""
        try:
            return getattr(self._library, name)  # type: ignore[no-any-return]
        except AttributeError:
            return None


def _number(answer: _FieldValue) -> float:
    if answer.status != _SUCCESS or answer.type >= len(_VALUE_TYPES):
        return math.nan
    return float(getattr(answer.value, _VALUE_TYPES[answer.type]))
