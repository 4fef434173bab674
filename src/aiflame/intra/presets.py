"""The bundled passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiflame.intra.names import (
    ASYNC_DOTS,
    BARRIER_WAIT,
    BARRIERS,
    BUFFER_LOADS,
    COPIES,
    COPY_WAITS,
    DOT_WAITS,
    DOTS,
    GLOBAL_LOADS,
    MEMORY,
    STORES,
    TMA_STORES,
)
from aiflame.intra.ops import Op
from aiflame.intra.passes import Kernel, label, pass_


@pass_("loads")
def loads(kernel: Kernel) -> None:
    """Each load from global memory: where it is issued and, if its value is used in the same block, the wait for it."""
    for op in kernel.ops(*GLOBAL_LOADS, *BUFFER_LOADS):
        user = first_user(kernel, op)
        if user is None:
            kernel.wrap(op, label(op), "load")
        else:
            kernel.asynchronous(op, user, label(op), "load", may_move([(op, user)]))
    for op in kernel.ops(*COPIES):
        kernel.wrap(op, f"issue {label(op)}", "load")
    for op in kernel.ops(*COPY_WAITS[:1], *COPY_WAITS[2:]):
        kernel.wrap(op, f"wait {label(op)}", "wait")


@pass_("mma")
def mma(kernel: Kernel) -> None:
    """Each matrix multiplication; for asynchronous ones, the issue and the wait."""
    for op in kernel.ops(*DOTS):
        kernel.wrap(op, f"dot {op.variable}".rstrip(), "mma")
    issued = [(op, kernel.wrap(op, f"issue {label(op)}", "mma")) for op in kernel.ops(*ASYNC_DOTS)]
    for wait in kernel.ops(*DOT_WAITS):
        source = kernel.from_source(wait, *ASYNC_DOTS) or _made_in_loop(kernel, wait)
        scope = next((scope for op, scope in issued if op is source), None)
        if scope is None:
            kernel.wrap(wait, f"wait {label(wait)}", "wait")
        else:
            kernel.waits_for(scope, wait, f"wait {label(wait)}")


@pass_("pipeline")
def pipeline(kernel: Kernel) -> None:
    """Asynchronous copies and their waits, which show a loop's stages."""
    for op in kernel.ops(*COPIES, *TMA_STORES):
        kernel.wrap(op, f"issue {label(op)}", "async")
    for op in kernel.ops(*COPY_WAITS, *DOT_WAITS, BARRIER_WAIT):
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
    """Each role of a warp-specialized kernel from its first operation to its last."""
    for number, body in enumerate(kernel.roles):
        block = body[0].siblings
        if len(block) > 1:
            kernel.span(block[0], block[-2], role_name(number, body), "role")


def role_name(number: int, body: Sequence[Op]) -> str:
    """The name of a role, from its operations: a role that copies is a producer, one that multiplies a consumer."""
    does = {one.name for op in body for one in (op, *op.inside())}
    copies, multiplies = (any(name in does for name in names) for names in (COPIES, DOTS + ASYNC_DOTS))
    if copies != multiplies:
        return "producer" if copies else "consumer"
    return "default role" if number == 0 else f"role {number}"


@pass_("regions")
def regions(kernel: Kernel) -> None:
    """The kernel from begin to end, and its parts before, in and after its outermost loops."""
    parts(kernel, lambda ops: True)


def parts(kernel: Kernel, worth: Callable[[Sequence[Op]], bool]) -> None:
    """Times the same parts; those outside of loops only if `worth` accepts them."""
    for function in kernel.functions:
        whole = kernel.whole(function)
        if whole is None:
            continue
        block = function.children[0].siblings
        loops = [op for op in block if op in kernel.loops]
        if loops and worth(block[: loops[0].index]):
            _part(kernel, block[: loops[0].index], "prologue")
        for number, one in enumerate(loops):
            kernel.wrap(one, label(one), "loop")
            last = number + 1 == len(loops)
            behind = block[one.index + 1 : len(block) - 1 if last else loops[number + 1].index]
            if worth(behind):
                _part(kernel, behind, "epilogue" if last else f"behind {label(one)}")


def _part(kernel: Kernel, ops: Sequence[Op], name: str) -> None:
    if ops:
        kernel.span(ops[0], ops[-1], name, "region")


def first_user(kernel: Kernel, op: Op) -> Op | None:
    """The first user of its value, if that is in the same block."""
    user = next(iter(kernel.users(op)), None)
    good = user is not None and user.siblings is op.siblings and not user.last and not user.regions
    return user if good else None


def may_move(used: Sequence[tuple[Op, Op]]) -> list[Op]:
    """Given loads with their first users, those whose user is arithmetic, which the assembler may move across a mark."""
    return [op for op, user in used if user.name not in MEMORY + DOTS + ASYNC_DOTS + STORES]


def _made_in_loop(kernel: Kernel, wait: Op) -> Op | None:
    """The multiplication in a loop that a wait after the loop awaits."""
    for loop in kernel.makers(wait):
        if loop.name == "scf.for":
            handed_on = zip(loop.results, [child for child in loop.children if child.last][-1].operands, strict=False)
            values = [value for result, value in handed_on if result in wait.operands]
            makers = [op for op in loop.children if set(values) & set(op.results)]
            for op in makers:
                source = op if op.name in ASYNC_DOTS else kernel.from_source(op, *ASYNC_DOTS) if op.name in DOT_WAITS else None
                if source is not None:
                    return source
    return None


def leaves_one_in_flight(kernel: Kernel, wait: Op) -> bool:
    """True if a wait in a loop leaves a multiplication in flight: it awaits the previous one, and another wait follows the loop."""
    loop = wait.loop
    if loop is None:
        return False
    passed_on = [result for result, value in zip(loop.results, wait.siblings[-1].operands, strict=False) if value in wait.results]
    return any(user.name in DOT_WAITS for user in kernel.all if user.loop is not loop and set(passed_on) & set(user.operands))
