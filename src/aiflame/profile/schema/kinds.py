"""The kinds of frames: the `kind` column of symbols and of the tree's frames."""

from __future__ import annotations

from enum import IntEnum

OP_MODULE = "torch op"
"""The module of frames of imported traces that are ops of torch, or nodes of its backward graph."""

UNKNOWN_CODE = "[unknown kernel]"
"""The function, of cubin 0, of stall samples at addresses where no recorded process had code."""

PROFILER_MODULES = ("overhead", "Overhead")
"""The modules of frames of the profiler's own work: torch.profiler's categories for it."""


CALL_COUNTS = "calls of functions"
"""The name of the kind of `stack_values` that counts the calls of a function in a trace. It is no metric of the profile."""


class Kind(IntEnum):
    """The kind of a frame decides its colour, its mark in collapsed stacks and which transforms touch it."""

    ROOT = 0
    PROCESS = 1
    THREAD = 2
    PYTHON = 3
    C = 4
    CPP = 5
    OS_KERNEL = 6
    BOUNDARY = 7
    GPU_KERNEL = 8
    GPU_LINE = 9
    GPU_INSTRUCTION = 10
    GPU_STALL = 11
    GPU_OFFSET = 12
    CPU_LINE = 13
    """A source line inside a native function."""
    CPU_INSTRUCTION = 14
    """`vfmadd231ps @ +0x1f`: an instruction of a native function."""
    REGION = 15
    LAYER = 16
    WAIT = 17
    """A frame that we add for the reason of a thread's wait: [OpenMP wait], [GIL], [lock], [I/O], [sleep]."""
    UNATTRIBUTED = 18
    GPU_COPY = 19
    """Memory moved or filled on a device."""
    GPU_IDLE = 20
    """Time in which nothing of the program ran on a device."""
    STEP = 21
    """`Step.7`: one pass of the loop of training or inference."""
    PHASE = 22
    """A phase of a step: Forward, Backward …"""
    OP = 23
    """`aten::addmm`"""
    FAMILY = 24
    """A family of kernels: gemm, attention …; or a category of memory: activations …"""
    GPU_SCOPE = 25
    """Inside a kernel: a part of it whose time it recorded itself."""


PYTHON_MARK = "py::"
MARKS = {
    Kind.OS_KERNEL: "_[k]",
    Kind.GPU_KERNEL: "_[G]",
    Kind.GPU_LINE: "_[G]",
    Kind.GPU_SCOPE: "_[G]",
    Kind.GPU_COPY: "_[G]",
    Kind.GPU_INSTRUCTION: "_[g]",
    Kind.GPU_STALL: "_[g]",
    Kind.GPU_OFFSET: "_[g]",
    Kind.CPU_INSTRUCTION: "_[g]",
}
"""The ends of names in collapsed stacks, by kind; the first stands before names of Python."""
