"""The part of Level Zero that the demo needs, through ctypes: no package, no header, only the loader and a GPU's driver."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, byref, c_char, c_char_p, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

# From ze_api.h of version 1.0 on. Every function returns a ze_result_t; handles are pointers.
_UNINITIALIZED, _BUILD_FAILED = 0x78000001, 0x70000004
_PROPERTIES, _QUEUE_GROUP, _CONTEXT, _QUEUE, _POOL, _EVENT, _MEMORY, _MODULE, _KERNEL = 0x3, 0x6, 0xD, 0xE, 0x10, 0x11, 0x15, 0x1B, 0x1D
_GPU = 1
_COMPUTES = 1
_ASYNCHRONOUS = 2
_HOST_VISIBLE = 1
_HOST_SCOPE = 4
_SPIRV = 0
_FOREVER = 0xFFFF_FFFF_FFFF_FFFF
_ALIGNMENT = 64
_MOST = 16
"""Drivers, devices of each, and groups of queues that are looked at."""


class _Structure(ctypes.Structure):
    """One that begins with its type, and the address of a further one."""

    _type: ClassVar[int]

    def __init__(self, **fields: object) -> None:
        super().__init__(type=self._type, **fields)


def _structure(name: str, kind: int, *fields: tuple[str, Any]) -> Any:
    return type(name, (_Structure,), {"_type": kind, "_fields_": [("type", c_uint32), ("next", c_void_p), *fields]})


_ContextDescription = _structure("_ContextDescription", _CONTEXT, ("flags", c_uint32))
_DeviceProperties = _structure("_DeviceProperties", _PROPERTIES, ("kind", c_uint32), ("rest", c_uint8 * 92), ("name", c_char * 256))
_QueueGroup = _structure("_QueueGroup", _QUEUE_GROUP, ("flags", c_uint32), ("pattern", c_size_t), ("queues", c_uint32))
_QueueDescription = _structure(
    "_QueueDescription", _QUEUE, ("group", c_uint32), ("index", c_uint32), ("flags", c_uint32), ("mode", c_uint32), ("priority", c_uint32)
)
_PoolDescription = _structure("_PoolDescription", _POOL, ("flags", c_uint32), ("count", c_uint32))
_EventDescription = _structure("_EventDescription", _EVENT, ("index", c_uint32), ("signal", c_uint32), ("wait", c_uint32))
_MemoryDescription = _structure("_MemoryDescription", _MEMORY, ("flags", c_uint32), ("ordinal", c_uint32))
_ModuleDescription = _structure(
    "_ModuleDescription",
    _MODULE,
    ("format", c_uint32),
    ("bytes", c_size_t),
    ("code", c_char_p),
    ("options", c_char_p),
    ("constants", c_void_p),
)
_KernelDescription = _structure("_KernelDescription", _KERNEL, ("flags", c_uint32), ("name", c_char_p))

_HANDLES = (POINTER(c_uint32), POINTER(c_void_p))
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "zeInit": (c_uint32,),
    "zeDriverGet": _HANDLES,
    "zeDeviceGet": (c_void_p, *_HANDLES),
    "zeDeviceGetProperties": (c_void_p, c_void_p),
    "zeDeviceGetCommandQueueGroupProperties": (c_void_p, POINTER(c_uint32), c_void_p),
    "zeContextCreate": (c_void_p, c_void_p, POINTER(c_void_p)),
    "zeCommandListCreateImmediate": (c_void_p, c_void_p, c_void_p, POINTER(c_void_p)),
    "zeEventPoolCreate": (c_void_p, c_void_p, c_uint32, c_void_p, POINTER(c_void_p)),
    "zeEventCreate": (c_void_p, c_void_p, POINTER(c_void_p)),
    "zeEventHostSynchronize": (c_void_p, c_uint64),
    "zeEventHostReset": (c_void_p,),
    "zeMemAllocDevice": (c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, POINTER(c_void_p)),
    "zeModuleCreate": (c_void_p, c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    "zeModuleBuildLogGetString": (c_void_p, POINTER(c_size_t), c_char_p),
    "zeKernelCreate": (c_void_p, c_void_p, POINTER(c_void_p)),
    "zeKernelSetArgumentValue": (c_void_p, c_uint32, c_size_t, c_void_p),
    "zeKernelSetGroupSize": (c_void_p, c_uint32, c_uint32, c_uint32),
    "zeCommandListAppendLaunchKernel": (c_void_p, c_void_p, POINTER(c_uint32), c_void_p, c_uint32, c_void_p),
    "zeCommandListAppendMemoryCopy": (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_uint32, c_void_p),
    "zeCommandListAppendBarrier": (c_void_p, c_void_p, c_uint32, c_void_p),
}


class LevelZeroError(Exception):
    pass


class LevelZero:
    """libze_loader, initialised: its functions; every error is an exception."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libze_loader.so.1")
        except OSError:
            raise LevelZeroError("there is no Level Zero here (libze_loader.so.1): install Debian's libze1 and libze-intel-gpu1") from None
        self._functions = {}
        for name, arguments in _SIGNATURES.items():
            function = library[name]
            function.argtypes, function.restype = arguments, c_uint32
            self._functions[name] = function
        error = self.result("zeInit", 0)
        if error == _UNINITIALIZED:
            raise LevelZeroError("Level Zero has no driver here that finds a GPU (Debian: libze-intel-gpu1)")
        if error:
            raise LevelZeroError(f"zeInit failed with error {error:#x}")

    def result(self, name: str, *arguments: object) -> int:
        return int(self._functions[name](*arguments))

    def call(self, name: str, *arguments: object) -> None:
        if error := self.result(name, *arguments):
            raise LevelZeroError(f"{name} failed with error {error:#x}")

    def make(self, name: str, *arguments: object) -> c_void_p:
        handle = c_void_p()
        self.call(name, *arguments, byref(handle))
        return handle

    def gpus(self) -> list[tuple[c_void_p, c_void_p, str]]:
        """The driver, the device and its name."""
        devices = []
        for driver in self._list("zeDriverGet"):
            for device in self._list("zeDeviceGet", driver):
                properties = _DeviceProperties()
                self.call("zeDeviceGetProperties", device, byref(properties))
                if properties.kind == _GPU:
                    devices.append((driver, device, properties.name.decode(errors="replace")))
        return devices

    def _list(self, name: str, *arguments: object) -> list[c_void_p]:
        count, handles = c_uint32(_MOST), (c_void_p * _MOST)()
        self.call(name, *arguments, byref(count), handles)
        return [c_void_p(handle) for handle in handles[: count.value]]


class Device:
    """The first GPU, and a list that gives it each command at once."""

    def __init__(self, level_zero: LevelZero) -> None:
        self._ze = level_zero
        gpus = level_zero.gpus()
        if not gpus:
            raise LevelZeroError("Level Zero has no GPU here")
        driver, self._device, self.name = gpus[0]
        self._context = level_zero.make("zeContextCreate", driver, byref(_ContextDescription()))
        queue = _QueueDescription(group=self._computing_group(), mode=_ASYNCHRONOUS)
        self._list = level_zero.make("zeCommandListCreateImmediate", self._context, self._device, byref(queue))
        pool = level_zero.make("zeEventPoolCreate", self._context, byref(_PoolDescription(flags=_HOST_VISIBLE, count=1)), 0, None)
        self._done = level_zero.make("zeEventCreate", pool, byref(_EventDescription(signal=_HOST_SCOPE, wait=_HOST_SCOPE)))

    def _computing_group(self) -> int:
        count, groups = c_uint32(_MOST), (_QueueGroup * _MOST)(*(_QueueGroup() for _ in range(_MOST)))
        self._ze.call("zeDeviceGetCommandQueueGroupProperties", self._device, byref(count), groups)
        return next((number for number in range(count.value) if groups[number].flags & _COMPUTES), 0)

    def module(self, spirv: bytes) -> c_void_p:
        """Compiled by the driver."""
        description = _ModuleDescription(format=_SPIRV, bytes=len(spirv), code=spirv)
        module, log = c_void_p(), c_void_p()
        error = self._ze.result("zeModuleCreate", self._context, self._device, byref(description), byref(module), byref(log))
        if error:
            raise LevelZeroError(f"zeModuleCreate failed with error {error:#x}{self._log(log) if error == _BUILD_FAILED else ''}")
        return module

    def _log(self, log: c_void_p) -> str:
        size, text = c_size_t(1 << 14), ctypes.create_string_buffer(1 << 14)
        self._ze.call("zeModuleBuildLogGetString", log, byref(size), text)
        return f": {text.value.decode(errors='replace')}"

    def input(self, values: array[float]) -> c_void_p:
        """Memory of the device with these values."""
        address, count = values.buffer_info()
        memory = self.output(count * values.itemsize)
        self._copy(memory, c_void_p(address), count * values.itemsize)
        return memory

    def output(self, size: int) -> c_void_p:
        return self._ze.make("zeMemAllocDevice", self._context, byref(_MemoryDescription()), size, _ALIGNMENT, self._device)

    def read(self, memory: c_void_p, into: array[float]) -> None:
        address, count = into.buffer_info()
        self._copy(c_void_p(address), memory, count * into.itemsize)

    def _copy(self, to: c_void_p, source: c_void_p, size: int) -> None:
        self._ze.call("zeCommandListAppendMemoryCopy", self._list, to, source, size, None, 0, None)
        self.synchronize()

    def kernel(self, module: c_void_p, name: str, group: tuple[int, int], *arguments: c_uint32 | c_void_p) -> c_void_p:
        """A kernel with its size of a group and its arguments."""
        kernel = self._ze.make("zeKernelCreate", module, byref(_KernelDescription(name=name.encode())))
        self._ze.call("zeKernelSetGroupSize", kernel, *group, 1)
        for index, argument in enumerate(arguments):
            self._ze.call("zeKernelSetArgumentValue", kernel, index, ctypes.sizeof(argument), byref(argument))
        return kernel

    def launch(self, kernel: c_void_p, groups: tuple[int, int]) -> None:
        self._ze.call("zeCommandListAppendLaunchKernel", self._list, kernel, (c_uint32 * 3)(*groups, 1), None, 0, None)

    def synchronize(self) -> None:
        """Waits for all commands up to here."""
        self._ze.call("zeCommandListAppendBarrier", self._list, self._done, 0, None)
        self._ze.call("zeEventHostSynchronize", self._done, _FOREVER)
        self._ze.call("zeEventHostReset", self._done)
