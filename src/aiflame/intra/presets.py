"""The passes that come with aiflame."""

from __future__ import annotations

from aiflame.intra.ops import Op
from aiflame.intra.passes import Kernel, label, pass_

LOADS = ("tt.load", "tt.gather", "tt.descriptor_load", "tt.descriptor_gather", "ttg.local_load")
GLOBAL_LOADS = LOADS[:-1]
COPIES = ("ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "amdg.buffer_load_to_local")
BUFFER_LOADS = ("amdg.buffer_load", "amdgpu.buffer_load")
STORES = (
    "tt.store",
    "tt.descriptor_store",
    "tt.descriptor_reduce",
    "tt.descriptor_scatter",
    "tt.atomic_rmw",
    "amdg.buffer_store",
    "amdgpu.buffer_store",
)
TMA_STORES = ("ttng.async_tma_copy_local_to_global", "ttng.async_tma_scatter", "ttng.async_tma_reduce")
DOTS = ("tt.dot", "tt.dot_scaled")
ASYNC_DOTS = ("ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
DOT_WAITS = ("ttng.warp_group_dot_wait",)
COPY_WAITS = ("ttg.async_wait", "ttng.async_tma_store_wait", "amdg.async_wait", "amdgpu.async_wait")
BARRIERS = ("ttng.wait_barrier", "ttng.arrive_barrier", "ttg.barrier", "gpu.barrier", "ttng.fence_async_shared", "ttng.cluster_wait")


@pass_("loads")
def loads(kernel: Kernel) -> None:
    """Each load from global memory: where it is issued and, where its value is used in the same block, the wait for it."""
    for op in kernel.ops(*GLOBAL_LOADS, *BUFFER_LOADS):
        user = _first_user(kernel, op)
        if user is None:
            kernel.wrap(op, label(op), "load")
        else:
            kernel.asynchronous(op, user, label(op), "load")
    for op in kernel.ops(*COPIES):
        kernel.wrap(op, f"issue {label(op)}", "load")
    for op in kernel.ops(*COPY_WAITS[:1], *COPY_WAITS[2:]):
        kernel.wrap(op, f"wait {label(op)}", "wait")


@pass_("mma")
def mma(kernel: Kernel) -> None:
    """Each matrix multiplication; of those that go on by themselves, where they are issued and where they are waited for."""
    for op in kernel.ops(*DOTS):
        kernel.wrap(op, f"dot {op.variable}".rstrip(), "mma")
    issued = [(op, kernel.wrap(op, f"issue {label(op)}", "mma")) for op in kernel.ops(*ASYNC_DOTS)]
    for wait in kernel.ops(*DOT_WAITS):
        source = kernel.from_source(wait, *ASYNC_DOTS)
        scope = next((scope for op, scope in issued if op is source), None)
        if scope is None:
            kernel.wrap(wait, f"wait {label(wait)}", "wait")
        else:
            kernel.waits_for(scope, wait, f"wait {label(wait)}")


@pass_("pipeline")
def pipeline(kernel: Kernel) -> None:
    """Asynchronous copies and what is waited for: where a loop's stages lie."""
    for op in kernel.ops(*COPIES, *TMA_STORES):
        kernel.wrap(op, f"issue {label(op)}", "async")
    for op in kernel.ops(*COPY_WAITS, *DOT_WAITS, "ttng.wait_barrier"):
        kernel.wrap(op, f"wait {label(op)}", "wait")


@pass_("barriers")
def barriers(kernel: Kernel) -> None:
    """Barriers between warps, arrivals and waits."""
    for op in kernel.ops(*BARRIERS):
        kernel.wrap(op, label(op), "barrier")


@pass_("stores")
def stores(kernel: Kernel) -> None:
    """Each store to global memory."""
    for op in kernel.ops(*STORES, *TMA_STORES):
        kernel.wrap(op, label(op), "store")


@pass_("loop")
def loop(kernel: Kernel) -> None:
    """Each loop, and each of its iterations."""
    for op in kernel.loops:
        kernel.wrap(op, label(op), "loop")
        if len(op.children) > 1:
            kernel.iterations(op)


@pass_("roles")
def roles(kernel: Kernel) -> None:
    """What each role of a warp-specialized kernel does from its first operation to its last."""
    for number, body in enumerate(kernel.roles):
        block = body[0].siblings
        if len(block) > 1:
            kernel.span(block[0], block[-2], "default role" if number == 0 else f"role {number}", "role")


@pass_("regions")
def regions(kernel: Kernel) -> None:
    """The kernel from begin to end, and what comes before, in and after its outermost loops."""
    for function in kernel.functions:
        whole = kernel.whole(function)
        if whole is None:
            continue
        block = function.children[0].siblings
        loops = [op for op in block if op in kernel.loops]
        if loops and loops[0].index:
            kernel.span(block[0], block[loops[0].index - 1], "prologue", "region")
        for number, one in enumerate(loops):
            kernel.wrap(one, label(one), "loop")
            behind = loops[number + 1].index if number + 1 < len(loops) else len(block) - 1
            if behind > one.index + 1:
                kernel.span(
                    block[one.index + 1], block[behind - 1], "epilogue" if number + 1 == len(loops) else f"behind {label(one)}", "region"
                )


def _first_user(kernel: Kernel, op: Op) -> Op | None:
    user = next(iter(kernel.users(op)), None)
    good = user is not None and user.siblings is op.siblings and not user.last and not user.regions
    return user if good else None


import aiflame.intra.auto  # noqa: E402,F401 - registers `auto`
