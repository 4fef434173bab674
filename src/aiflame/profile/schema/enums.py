"""Enumerations in a profile's records. The C++ header of the collector is generated from them too."""

from __future__ import annotations

from enum import IntEnum


class FrameKind(IntEnum):
    """The top four bits of a stack's frame word; the docstring of each kind describes the remaining bits."""

    NATIVE = 1
    """[59:40] row of `modules`, [39:0] offset from its lowest ELF vaddr; a return address, which points behind its call"""
    NATIVE_APPROX = 2
    """as NATIVE, but from a scan of the stack, because the code above it has no unwind information"""
    PYTHON = 3
    """[59:32] row of `codes`, [31:0] byte offset of the instruction + 1 (0: before the first)"""
    JIT = 4
    """[59:32] row of `jit_methods`, [31:0] offset in the method"""
    ADDRESS = 5
    """[47:0] an address outside of all modules (anonymous executable memory), which a perf map or jitdump may name after the run"""
    MARK = 6
    """[31:0] row of `marks`: a frame that the collector adds, such as [OpenMP wait]"""
    KERNEL = 7
    """[31:0] row of `marks`: a frame of the operating system's kernel"""
    LAYER = 8
    """[31:0] row of `layers`: the torch module whose call the Python frame just outside of this one evaluates"""
    NAMED = 9
    """[31:0] row of `named_frames`: a frame of which an imported trace has the name alone"""


class LeafFlag(IntEnum):
    """Set in a NATIVE word that holds the program counter itself, not a return address. No offset in an ELF file reaches this bit."""

    EXACT_PC = 1 << 39


class SampleState(IntEnum):
    """The state of the sampled thread."""

    ON_CPU = 0
    WAITING = 1


class GpuApi(IntEnum):
    OPENCL = 1
    CUDA = 2
    LEVEL_ZERO = 3
    HIP = 4


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


class PhysicalMemoryKind(IntEnum):
    """Calls on the physical memory of a device, which CUDA's virtual memory management names by handles."""

    CREATE = 1
    IMPORT = 2
    """A handle of memory that another handle was exported for, often by another process."""
    RETAIN = 3
    """One more reference to a handle."""
    RELEASE = 4
    MAP = 5
    UNMAP = 6


class MemoryKind(IntEnum):
    UNKNOWN = 0
    HOST = 1
    """The machine's, pinned so that devices can reach it."""
    DEVICE = 2
    MANAGED = 3
    """Its pages move to the device or to the machine, whichever uses them."""


class HostMemoryKind(IntEnum):
    MALLOC = 1
    """by malloc() and its like; C++'s new calls it"""
    MAP = 2
    """by mmap(), anonymous and writable"""
    REST = 3
    """Of a mapping, after munmap() or mremap() of a part: nothing was allocated anew. Its stack is that of the mapping."""


class CallBackend(IntEnum):
    """The runtime whose calls are traced."""

    CUDA = 1
    OPENCL = 2
    MPI = 3
    OPENMP = 4
    NCCL = 5
    TORCH = 6
    """torch.distributed over Gloo, MPI or a backend of its own"""
    LEVEL_ZERO = 7
    HIP = 8
    HSA = 9
    """AMD's layer beneath HIP"""


class CallKind(IntEnum):
    BLOCKING = 1
    """its thread was in the call from begin to end"""
    ASYNC = 2
    """its thread began the operation; the end is the operation's, wherever it ran"""


class RegionApi(IntEnum):
    """The interface that marked a region."""

    NVTX = 1
    ITT = 2
    AIFLAME = 3
    """`aiflame.region()`"""
    AUTOMATIC = 4
    """seen by aiflame itself: optimizer steps, data loading"""
    TORCH = 5
    """`torch.profiler.record_function()`, in imported traces"""
    XLA = 6
    """steps of `jax.profiler.StepTraceAnnotation`, or of a TPU, in imported traces"""


class RegionKind(IntEnum):
    NESTED = 1
    """pushed and popped on one thread, whose work in between belongs to it"""
    FREE = 2
    """may overlap others and end on another thread; the work of the thread that began it belongs to it, except in nested regions"""
    MARK = 3
    """one moment"""
    FRAME = 4
    """spans the whole process (ITT frames)"""


class PayloadType(IntEnum):
    NONE = 0
    UNSIGNED = 1
    SIGNED = 2
    FLOAT = 3
    """the bits of a double"""
