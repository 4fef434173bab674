"""NVRTC, NVIDIA's compiler as a library, through ctypes: from the CUDA toolkit, or from the wheels that torch brings."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

# Every function of NVRTC returns an nvrtcResult (nvrtc.h of CUDA 12 and 13).
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcGetNumSupportedArchs": (POINTER(c_int),),
    "nvrtcGetSupportedArchs": (POINTER(c_int),),
    "nvrtcCreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, POINTER(c_char_p), POINTER(c_char_p)),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcDestroyProgram": (POINTER(c_void_p),),
    "nvrtcGetProgramLogSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetProgramLog": (c_void_p, c_void_p),
    "nvrtcGetCUBINSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetCUBIN": (c_void_p, c_void_p),
}
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


class NvrtcError(Exception):
    pass


class Nvrtc:
    """One copy of the library: functions by name, every error an exception."""

    def __init__(self, path: str) -> None:
        self.path = path
        library = ctypes.CDLL(path)
        self._functions = {}
        for name, arguments in _SIGNATURES.items():
            function = library[name]
            function.argtypes, function.restype = arguments, c_int
            self._functions[name] = function
        self._error_text = library["nvrtcGetErrorString"]
        self._error_text.argtypes, self._error_text.restype = (c_int,), c_char_p
        major, minor = c_int(), c_int()
        self.call("nvrtcVersion", byref(major), byref(minor))
        self.version = major.value, minor.value

    def call(self, name: str, *arguments: object) -> None:
        result = self._functions[name](*arguments)
        if result:
            raise NvrtcError(f"{name} failed: {self._error_text(result).decode()}")

    def architectures(self) -> list[int]:
        """Compute capabilities that it compiles for, such as 90."""
        count = c_int()
        self.call("nvrtcGetNumSupportedArchs", byref(count))
        values = (c_int * count.value)()
        self.call("nvrtcGetSupportedArchs", values)
        return list(values)

    def compile(self, source: Path, architecture: int) -> bytes:
        """The cubin of a file, with line tables that name it by its absolute path."""
        # The kernels use no header, so no include folders are given.
        options = [f"--gpu-architecture=sm_{architecture}", "-lineinfo", "--std=c++17"]
        program = c_void_p()
        self.call("nvrtcCreateProgram", byref(program), source.read_bytes(), os.fsencode(source.absolute()), 0, None, None)
        try:
            self.call("nvrtcCompileProgram", program, len(options), (c_char_p * len(options))(*map(str.encode, options)))
            return self._bytes(program, "nvrtcGetCUBIN")
        except NvrtcError as error:
            log = self._bytes(program, "nvrtcGetProgramLog").rstrip(b"\0\n ")
            raise NvrtcError(f"{error}: {log.decode(errors='replace')}") from None
        finally:
            self.call("nvrtcDestroyProgram", byref(program))

    def _bytes(self, program: c_void_p, name: str) -> bytes:
        size = c_size_t()
        self.call(f"{name}Size", program, byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(name, program, buffer)
        return buffer.raw


def find(driver: tuple[int, int], architecture: int) -> Nvrtc:
    """A copy that supports the device and whose major version is at most the driver's: drivers may refuse newer code."""
    unfit = []
    for path in dict.fromkeys(_candidates()):
        nvrtc = _opened(path)
        if nvrtc and nvrtc.version[0] <= driver[0] and architecture in nvrtc.architectures():
            return nvrtc
        unfit += [".".join(map(str, nvrtc.version))] if nvrtc else []
    if not unfit:
        raise NvrtcError("there is no NVRTC here (libnvrtc.so.13 or .12): install the CUDA toolkit, or pip install nvidia-cuda-nvrtc")
    raise NvrtcError(
        f"NVRTC {', '.join(dict.fromkeys(unfit))} does not fit a device of sm_{architecture} with a driver for CUDA {driver[0]}.{driver[1]}"
    )


def _opened(path: str) -> Nvrtc | None:
    try:
        # A wheel's NVRTC does not search its own folder for its built-in functions, so we load them first.
        for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")) if "/" in path else ():
            ctypes.CDLL(str(builtins))
        return Nvrtc(path)
    except (OSError, AttributeError, NvrtcError):  # missing, or older than 11.2, which cannot make cubins
        return None


def _candidates() -> Iterator[str]:
    """The places where the loader, the toolkit and the wheels may have a copy."""
    yield from _SONAMES
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [Path(home) / "lib64" for home in homes if home]
    for place in filter(None, sys.path):
        wheels = Path(place) / "nvidia"
        folders += [*wheels.glob("cu[0-9]*/lib"), wheels / "cuda_nvrtc" / "lib"]
    for soname in _SONAMES:
        yield from (str(folder / soname) for folder in folders if (folder / soname).exists())
