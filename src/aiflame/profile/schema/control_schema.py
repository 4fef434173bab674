"""The control page: its fields, and the meaning of their numbers. The C++ header of the collector is generated from this file too.

It lies apart from `all_tables.py` and `enums.py` since it is all that `aiflame record` needs of them before the program starts.
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
    ("state", T.U32, "ControlState: the order to every process of the recording"),
    ("max_bytes", T.U64, "spool bytes allowed, 0 for no limit"),
    ("used_bytes", T.U64, "spool bytes taken so far, by all processes"),
    ("stop_reason", T.U32, "StopReason: why a process stopped recording"),
    ("stop_errno", T.U32, "errno of that moment"),
    ("cpu_rate", T.U32, "samples a second of CPU time and thread, 0 for none"),
    ("wall_rate", T.U32, "samples a second of wall-clock time and thread, 0 for none"),
    ("features", T.U64, "Feature bits that are on"),
    ("recorder_pid", T.U32, "the process that seals it"),
    ("gpu_sampling", T.U32, "GpuSampling"),
    ("gpu_counters", T.U32, "GpuCounters"),
)


class GpuSampling(IntEnum):
    """CONTROL.gpu_sampling: one of these, or 5 to 31, the logarithm of a fixed period in cycles."""

    OFF = 0
    AUTO = 1


class GpuCounters(IntEnum):
    """CONTROL.gpu_counters"""

    OFF = 0
    AUTO = 1
    """where stalls are not sampled: a device does one of the two at a time"""
    ON = 2
    """always, and no stalls"""


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
    """a process has entered a sandbox that forbids recording; concerns that process alone"""


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
    """Python of ours runs in the program: names of layers, steps, kernels"""
    NVTX = 256
    ITT = 512
    TRITON_NAMES = 1024
    """specializations of Triton kernels get their readable names in the binary, too"""
    KEEP_IR = 2048
    TRACE_OPENCL = 4096
    """rows in `calls` for each call of the program's; the same for those below"""
    TRACE_MPI = 8192
    TRACE_OPENMP = 16384
    TRACE_NCCL = 32768
    TRACE_TORCH = 65536
    """collectives of torch.distributed"""
    TRACE_STACKS = 131072
    """each traced call with its stack, also where calls are many"""
    TRACE_ZE = 262144
    """Level Zero, with the times of its kernels and copies"""
    TRACE_HIP = 524288
    TRACE_CUDA = 1048576
    """calls of CUDA's runtime and driver"""
