"""A CUDA driver and a Triton driver in Python: memory is the host's, each call ends at once, and a launch writes a kernel's records."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime import _allocation

PREAMBLE = 0xDEADBEEF
GRANULARITY = 2 << 20
_LIBC = ctypes.CDLL(None)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_FIXED, _NOTHING_THERE = 0x10, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000


class FakeCuda:
    """In the place of `driver.call`. Where it has virtual memory, one piece of memory really lies at several addresses."""

    def __init__(self) -> None:
        self.has_virtual_memory = False
        self.pieces: dict[int, int] = {}
        """Descriptors, with their sizes."""
        self.calls: list[str] = []
        self.context = 1
        """Its number. All contexts are at one address."""
        self.capturing = False
        self.copied = True
        """Whether copies are done at once, or not yet."""
        self.out_of_memory = False
        self.failing = ""
        """The call that fails."""
        self._memory: list[Any] = []

    def __call__(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        if name == self.failing:
            return 999
        answer: int = getattr(self, name, lambda *_: 0)(*arguments)
        return answer

    def cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        if self.out_of_memory:
            return 2
        memory = ctypes.create_string_buffer(size.value)
        self._memory.append(memory)
        out._obj.value = ctypes.addressof(memory)
        return 0

    def cuMemHostAlloc(self, out: Any, size: Any, flags: int) -> int:
        return self.cuMemAlloc_v2(out, size)

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> int:
        out._obj.value = int(self.has_virtual_memory)
        return 0

    def cuMemGetAllocationGranularity(self, out: Any, wanted: Any, option: int) -> int:
        out._obj.value = GRANULARITY
        return 0 if self.has_virtual_memory else 801

    def cuMemCreate(self, out: Any, size: Any, wanted: Any, flags: Any) -> int:
        if self.out_of_memory:
            return 2
        assert size.value % GRANULARITY == 0 and (wanted._obj.type, wanted._obj.location.type) == (1, 1)
        out._obj.value = os.memfd_create("piece")
        os.ftruncate(out._obj.value, size.value)
        self.pieces[out._obj.value] = size.value
        return 0

    def cuMemAddressReserve(self, out: Any, size: Any, alignment: Any, at: Any, flags: Any) -> int:
        out._obj.value = _LIBC.mmap(None, size.value, 0, _NOTHING_THERE, -1, 0)
        return 0

    def cuMemMap(self, at: Any, size: Any, offset: Any, piece: Any, flags: Any) -> int:
        assert size.value == self.pieces[piece.value], "a handle is mapped as a whole"
        return 0 if _LIBC.mmap(at.value, size.value, 3, mmap.MAP_SHARED | _FIXED, piece.value, 0) == at.value else 1

    def cuMemUnmap(self, at: Any, size: Any) -> int:
        return 0 if _LIBC.mmap(at.value, size.value, 0, _NOTHING_THERE | _FIXED, -1, 0) == at.value else 1

    def cuMemAddressFree(self, at: Any, size: Any) -> int:
        return int(_LIBC.munmap(ctypes.c_void_p(at.value), ctypes.c_size_t(size.value)))

    def cuMemRelease(self, piece: Any) -> int:
        del self.pieces[piece.value]
        os.close(piece.value)
        return 0

    def cuStreamCreate(self, out: Any, flags: int) -> int:
        out._obj.value = 0x1000 + self.calls.count("cuStreamCreate")
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        assert stream.value, "the program's own stream"
        return 0

    def cuStreamIsCapturing(self, stream: Any, out: Any) -> int:
        out._obj.value = int(self.capturing)
        return 0

    def cuCtxGetCurrent(self, out: Any) -> int:
        out._obj.value = 1
        return 0

    def cuCtxGetId(self, of: Any, out: Any) -> int:
        out._obj.value = self.context
        return 0

    def cuMemcpyDtoHAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def cuMemsetD8Async(self, to: Any, value: Any, size: Any, stream: Any) -> int:
        ctypes.memset(to.value, value.value, size.value)
        return 0

    def cuEventQuery(self, event: Any) -> int:
        return 0 if self.copied else 600


class FakeTriton:
    """Triton's active driver. `launched`: the compiler's option that says how each launched kernel was instrumented."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.utils = self
        self.too_large = False
        """Whether instrumented kernels need more than a multiprocessor has."""
        self.after_launch: Exception | None = None
        """Its launchers raise this after the launch."""
        self.blocks_cleared = True
        """Whether memory for records was clear at every launch."""

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def launch(grid_x: int, grid_y: int, grid_z: int, stream: int, *arguments: Any) -> None:
            _function, _packed, launch_metadata, enter, leave, *_arguments = arguments
            size, blocks = metadata.profile_scratch_size, grid_x * grid_y * grid_z
            memory = _allocation._profile_allocator.get()(blocks * size, 128, stream).data_ptr() if size else 0
            if enter is not None:
                enter(launch_metadata)
            if size and self.too_large:
                raise RuntimeError("out of resources")
            self.launched.append(metadata.instrumentation_mode)
            write(blocks if size else 0, size, memory)
            if leave is not None:
                leave(launch_metadata)
            if self.after_launch is not None:
                raise self.after_launch

        def write(blocks: int, size: int, memory: int) -> None:
            self.blocks_cleared &= all(ctypes.string_at(memory + block * size, 4) == bytes(4) for block in range(blocks))
            for block in range(blocks):
                head = struct.pack("<4I3Q", PREAMBLE, block, 7, 0, 1000 + block, 2000 + block, 2000 + block)
                ctypes.memmove(memory + block * size, head, len(head))

        return launch

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        return 1, hash(kernel) & 0xFFFF, 40, 0, 1024

    def unload_module(self, module: int) -> None:
        pass

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448}

    def get_current_device(self) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_stream(self, device: int) -> int:
        return 0
