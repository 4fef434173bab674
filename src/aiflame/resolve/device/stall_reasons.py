"""Stall reasons of sampled warps and waves: short names of the vendors' own, and their meaning for the author of a kernel."""

from __future__ import annotations

import re

NOT_ISSUED = "_not_issued"
"""CUPTI has two counters for each reason: all samples, and the part in whose cycle the scheduler issued nothing."""
SELECTED = "selected"
"""The only reason that is not a stall: the warp issued its instruction."""

HOST_TRAP = "host_trap"
"""AMD's older method interrupts waves and does not say whether they issued."""

_NAMES = re.compile(r"^(?:smsp?__pcsamp_)?(?:warps_issue_stalled_)?")
_NAMES_OF_AMD = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"

_NVIDIA = {
    "barrier": "waits at a block's barrier (__syncthreads, tl.debug_barrier) for its other warps",
    "branch_resolving": "waits for the target of a branch",
    "dispatch_stall": "the dispatcher is held up: a conflict over registers or a unit",
    "drain": "has ended and waits for its stores to memory",
    "gmma": "waits for a warp-group matrix instruction (WGMMA) to finish",
    "imc_miss": "waits for a constant that missed its cache",
    "lg_throttle": "the queue for local and global memory is full: too many small accesses",
    "long_scoreboard": "waits for a result from global, local, surface or texture memory",
    "math_pipe_throttle": "waits for a busy arithmetic or tensor unit",
    "membar": "waits at a memory fence",
    "mio_throttle": "the queue for shared memory and special instructions is full",
    "misc": "other",
    "no_instructions": "waits for instructions: the code missed its cache, or jumps",
    "not_selected": "could issue, but another warp was chosen: there are warps enough",
    SELECTED: "issued its instruction: not a stall",
    "short_scoreboard": "waits for a result from shared memory or a special-function unit",
    "sleeping": "sleeps (nanosleep)",
    "tex_throttle": "the queue for textures is full",
    "wait": "waits the fixed latency of the instruction before",
    "warpgroup_arrive": "waits for the warps of its group to arrive at a WGMMA",
}
"""From the vendor's descriptions of its counters."""
_AMD = {
    "none": "did not issue, and no reason was given",
    "no_instruction_available": "waits for instructions: the code missed its cache, or jumps",
    "alu_dependency": "waits for the result of an arithmetic instruction before",
    "waitcnt": "waits at s_waitcnt for memory, LDS or scalar loads",
    "internal_instruction": "executes an internal instruction",
    "barrier_wait": "waits at a workgroup's barrier (s_barrier, __syncthreads) for its other waves",
    "arbiter_not_win": "could issue, but another wave was chosen: there are waves enough",
    "arbiter_win_ex_stall": "was chosen, but its unit was busy and pushed the instruction back",
    "other_wait": "another wait (page faults, XNACK)",
    "sleep_wait": "sleeps (s_sleep)",
    HOST_TRAP: "was running here; this method does not say whether it issued",
}
"""From rocprofiler-sdk's pc_sampling.h, whose numbers 0 to 9 are the first ten, in this order."""
MEANINGS = {**_NVIDIA, **_AMD}
"""By short name."""
VENDORS = {**dict.fromkeys(_NVIDIA, "NVIDIA"), **dict.fromkeys(_AMD, "AMD")}
"""The vendor whose devices have a reason. `selected` is NVIDIA's name, and stands for an issued instruction of AMD, too."""
NO_STALLS = frozenset({SELECTED, HOST_TRAP, "not_selected", "arbiter_not_win"})
"""Reasons of warps that issued, or could have."""


def short(vendor_name: str) -> str:
    """`smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued` → `long_scoreboard`."""
    if vendor_name.startswith(_NAMES_OF_AMD):
        return vendor_name.removeprefix(_NAMES_OF_AMD).lower() or "unknown"
    return _NAMES.sub("", vendor_name).removesuffix(NOT_ISSUED) or "unknown"


def meaning(reason: str) -> str:
    """The meaning of a reason, by its short name; "" for an unknown one."""
    return MEANINGS.get(reason, "")
