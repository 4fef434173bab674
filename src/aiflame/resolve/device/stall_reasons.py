"""Stall reasons of sampled warps: short names of the vendor's counters, and their meaning for the author of a kernel."""

from __future__ import annotations

import re

NOT_ISSUED = "_not_issued"
"""CUPTI has two counters for each reason: all samples, and the part in whose cycle the scheduler issued nothing."""
SELECTED = "selected"
"""The only reason that is not a stall: the warp issued its instruction."""

_VENDOR = re.compile(r"^(?:smsp?__pcsamp_)?(?:warps_issue_stalled_)?")

MEANINGS = {
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
"""By short name, from the vendor's descriptions of its counters."""


def short(vendor_name: str) -> str:
    """`smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued` → `long_scoreboard`."""
    return _VENDOR.sub("", vendor_name).removesuffix(NOT_ISSUED) or "unknown"


def meaning(reason: str) -> str:
    """The meaning of a reason, by its short name; "" for an unknown one."""
    return MEANINGS.get(reason, "")
