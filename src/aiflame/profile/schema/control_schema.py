"""The control page: its fields and enumerations. The C++ header of the collector is generated from this file too.

`aiflame record` needs only this part of the schema before the program starts, so it is apart from `all_tables.py` and `enums.py`.
"""

from __future__ import annotations

from enum import IntEnum

from aiflame.profile.schema.records import Column, columns
from aiflame.profile.schema.records import Type as T

FORMAT = 1
"""The format of profiles. A reader refuses a profile whose number is higher than its own."""

CONTROL_MAGIC = b"AIFLAMEC"

CONTROL: tuple[Column, ...] = columns(
    ("magic", T.U64, "CONTROL_MAGIC"),
    ("format", T.U32, "FORMAT"),
    ("state", T.U32, "ControlState, which every process of the recording obeys"),
    ("max_bytes", T.U64, "the most bytes that the spool may have, 0: no limit"),
    ("used_bytes", T.U64, "bytes of the spool so far, of all processes"),
    ("stop_reason", T.U32, "StopReason: why a process stopped recording"),
    ("stop_errno", T.U32, "errno at that moment"),
    ("cpu_rate", T.U32, "samples of each thread in a second of CPU time, 0: none"),
    ("wall_rate", T.U32, "samples of each thread in a second of wall-clock time, 0: none"),
    ("features", T.U64, "bits of Feature"),
    ("recorder_pid", T.U32, "process id of the recorder"),
    ("gpu_sampling", T.U32, "GpuSampling, or the logarithm of a period in cycles"),
    ("gpu_counters", T.U32, "GpuCounters"),
    ("host_memory_every", T.U64, "a sample of host memory for each so many bytes allocated, on average"),
)


class GpuSampling(IntEnum):
    """CONTROL.gpu_sampling: one of these, or 5 to 31, the logarithm of a fixed period in cycles."""

    OFF = 0
    AUTO = 1


class GpuCounters(IntEnum):
    """CONTROL.gpu_counters"""

    OFF = 0
    AUTO = 1
    """counters where stalls are not sampled: a device does one of the two at a time"""
    ON = 2
    """always counters, no stalls"""


class ControlState(IntEnum):
    RECORDING = 1
    PAUSED = 2
    STOPPED = 3


class StopReason(IntEnum):
    NONE = 0
    MAX_SIZE = 1
    NO_SPACE = 2
    IO_ERROR = 3
    SANDBOX = 4
    """a process has entered a sandbox that forbids recording; only that process has stopped"""


class Feature(IntEnum):
    """Bits of CONTROL.features."""

    PYTHON = 1
    OPENMP = 2
    JIT = 4
    OPENCL = 8
    CHILDREN = 16
    CUDA = 32
    GPU_MEMORY = 64
    MEANING = 128
    """our Python code runs in the program and names layers, steps and kernels"""
    NVTX = 256
    ITT = 512
    TRITON_NAMES = 1024
    """specializations of Triton kernels have readable names in their binaries, too"""
    KEEP_IR = 2048
    TRACE_OPENCL = 4096
    """rows in `calls` for each call that the program makes; this and the TRACE_ bits below"""
    TRACE_MPI = 8192
    TRACE_OPENMP = 16384
    TRACE_NCCL = 32768
    TRACE_TORCH = 65536
    """collectives of torch.distributed"""
    TRACE_STACKS = 131072
    """each traced call has its stack, also for runtimes with many calls"""
    TRACE_ZE = 262144
    """Level Zero, with the times of its kernels and copies"""
    TRACE_HIP = 524288
    TRACE_CUDA = 1048576
    """calls of CUDA's runtime and driver"""
    HOST_MEMORY = 2097152
    """host memory, if libaiflame_memory.so is preloaded"""
    ROCM = 4194304
    """kernels and copies of AMD's GPUs"""
    TRACE_HSA = 8388608
    """calls of HSA, the layer beneath HIP"""
