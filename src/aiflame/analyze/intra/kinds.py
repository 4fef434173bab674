"""Classifies a kernel's scopes by their first operation, kind and phase."""

from __future__ import annotations

from typing import Any

from aiflame.intra.names import ASYNC_DOTS, BARRIER_WAIT, BUFFER_LOADS, COPIES, COPY_WAITS, DOT_WAITS, GLOBAL_LOADS

Row = dict[str, Any]
"""A row of `intra_scopes`."""

TMA_STORE_WAIT = "ttng.async_tma_store_wait"
OWN_COPY_WAITS = frozenset(COPY_WAITS) - {TMA_STORE_WAIT}
"""Waits for copies that their own warp has made; a barrier may also wait for other things."""
ROLE_WAITS = OWN_COPY_WAITS | {BARRIER_WAIT, TMA_STORE_WAIT, "ttg.barrier", "gpu.barrier"}
"""Waits of a role, without those for its own multiplications, which are work."""


def waits_for_its_math(arch: str) -> bool:
    """On these architectures, a role has finished its multiplications when it comes to the next step; from sm_100 on they continue without
    it."""
    return not arch.startswith(("sm_10", "sm_11", "sm_12"))


def is_copy(row: Row) -> bool:
    """The issue of an asynchronous copy."""
    return row["op"] in COPIES and row["kind"] in ("load", "async") and row["phase"] in ("span", "issue")


def is_load_issue(row: Row) -> bool:
    """True for loads and copies of any kind if the scope covers only their issue."""
    return row["kind"] in ("load", "async") and row["phase"] in ("span", "issue")


def is_copy_wait(row: Row) -> bool:
    return row["op"] in OWN_COPY_WAITS or row["op"] == BARRIER_WAIT


def is_math(row: Row) -> bool:
    return row["kind"] == "mma" and row["phase"] in ("span", "issue")


def is_async_math(row: Row) -> bool:
    """The issue of a multiplication that may continue without the warp."""
    return is_math(row) and row["op"] in ASYNC_DOTS


def is_dot_wait(row: Row) -> bool:
    return row["op"] in DOT_WAITS


def is_arrival(row: Row) -> bool:
    """A scope from the issue of loads or copies until their arrival."""
    return _is_one(row) and row["op"] in (*GLOBAL_LOADS, *BUFFER_LOADS, *COPIES)


def is_whole_math(row: Row) -> bool:
    """A scope from the issue of a multiplication to the end of the wait for it."""
    return _is_one(row) and row["op"] in ASYNC_DOTS


def is_about_math(row: Row) -> bool:
    """A wait for a multiplication."""
    return is_whole_math(row) or is_dot_wait(row)


def is_role_wait(row: Row) -> bool:
    """A warp in this scope waits for others, or for memory."""
    return row["op"] in ROLE_WAITS or is_arrival(row)


def _is_one(row: Row) -> bool:
    return bool(row["kind"] == "wait" and row["phase"] == "span")
