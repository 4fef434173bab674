"""The meaning of numbers in a profile's records and on its control page. The C++ header of the collector is generated from these too."""

from __future__ import annotations

from enum import IntEnum


class FrameKind(IntEnum):
    """The top four bits of a stack's frame word; the docstring of each kind describes the remaining bits."""

    NATIVE = 1
    """[59:40] module id, [39:0] offset from the module's lowest address (its ELF vaddr); a return address points after its call"""
    NATIVE_APPROX = 2
    """as NATIVE, found by scanning the stack through code without unwind information"""
    PYTHON = 3
    """[59:32] code id, [31:0] byte offset of the instruction + 1 (0: before the first)"""
    JIT = 4
    """[59:32] jit method id, [31:0] offset in it"""
    ADDRESS = 5
    """[47:0] an address no module covers (anonymous executable memory): perf-map or jitdump may name it after the run"""
    MARK = 6
    """[31:0] row of `marks`: a frame that we put there ourselves, such as [OpenMP wait]"""
    KERNEL = 7
    """[31:0] row of `marks`: a frame of the operating system's kernel"""
    LAYER = 8
    """[31:0] row of `layers`: the torch module whose call the Python frame just outside of this one evaluates"""


class LeafFlag(IntEnum):
    """Bit 39 of a NATIVE word's offset is never set by an ELF; we use it to distinguish an exact pc from a return address."""

    EXACT_PC = 1 << 39


class SampleState(IntEnum):
    """The state of the sampled thread."""

    ON_CPU = 0
    WAITING = 1


class GpuApi(IntEnum):
    OPENCL = 1
    CUDA = 2
    LEVEL_ZERO = 3


class CopyKind(IntEnum):
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    FILL = 4
    MAP = 5
    PEER = 6
    """from one device to another"""


class SyncKind(IntEnum):
    EVENT = 1
    STREAM = 2
    CONTEXT = 3


class AllocationKind(IntEnum):
    TAKE = 1
    RELEASE = 2


class CallBackend(IntEnum):
    """Whose calls are traced."""

    CUDA = 1
    OPENCL = 2
    MPI = 3
    OPENMP = 4
    NCCL = 5
    TORCH = 6
    """torch.distributed over Gloo, MPI or a backend of its own"""
    LEVEL_ZERO = 7
    HIP = 8


class CallKind(IntEnum):
    BLOCKING = 1
    """its thread was in it from begin to end"""
    ASYNC = 2
    """begun by its thread; the end is that of the operation, wherever it ran"""


class RegionApi(IntEnum):
    """The interface that marked a region."""

    NVTX = 1
    ITT = 2
    AIFLAME = 3
    """`aiflame.region()`"""
    AUTOMATIC = 4
    """seen by aiflame itself: optimizer steps, data loading"""


class RegionKind(IntEnum):
    NESTED = 1
    """pushed and popped on one thread: the thread's work meanwhile belongs to it"""
    FREE = 2
    """may end on another thread, and overlap others: meanwhile the work of the thread that began it belongs to it, outside of nested
    ones"""
    MARK = 3
    """a moment"""
    FRAME = 4
    """spans the whole process (ITT frames)"""


class PayloadType(IntEnum):
    NONE = 0
    UNSIGNED = 1
    SIGNED = 2
    FLOAT = 3
    """the bits of a double"""
