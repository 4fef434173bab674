"""A CUDA driver and a driver of Triton's, in Python: memory is the host's, all is done at once, and a launch writes what a kernel would."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime import _allocation

PREAMBLE = 0xDEADBEEF


class FakeCuda:
    """In the place of `device._call`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
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

    def cuStreamIsCapturing(self, stream: Any, out: Any) -> int:
        out._obj.value = int(self.capturing)
        return 0

    def cuCtxGetCurrent(self, out: Any) -> int:
        out._obj.value = 1
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
        self.blocks_cleared = True
        """Whether memory for records was clear at every launch."""

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def launch(grid_x: int, grid_y: int, grid_z: int, stream: int, *rest: Any) -> None:
            size = metadata.profile_scratch_size
            if size and self.too_large:
                raise RuntimeError("out of resources")
            self.launched.append(metadata.instrumentation_mode)
            if not size:
                return
            memory = _allocation._profile_allocator.get()(grid_x * grid_y * grid_z * size, 128, stream).data_ptr()
            for block in range(grid_x * grid_y * grid_z):
                at = memory + block * size
                self.blocks_cleared &= ctypes.string_at(at, 4) == bytes(4)
                ctypes.memmove(at, struct.pack("<4I", PREAMBLE, block, 7, size), 16)

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
