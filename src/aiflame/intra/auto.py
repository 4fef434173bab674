"""`auto`: the few scopes that say most about a kernel, so that it runs nearly as it does without."""

from __future__ import annotations

from aiflame.intra.ops import Op
from aiflame.intra.passes import Kernel, label, pass_

MOST_IN_LOOPS = 3
"""Scopes in a loop: a record costs some thirty cycles, and a loop's body is run often."""
MOST_OUTSIDE = 8


@pass_("auto")
def auto(kernel: Kernel) -> None:
    """The kernel's parts, and in its hottest loop what is waited for."""
    from aiflame.intra import presets

    presets.regions(kernel)
    for role in kernel.roles:
        block = role[0].siblings
        if len(block) > 1:
            kernel.span(block[0], block[-2], f"role at {block[0].line}", "role")
    for loop in kernel.innermost_loops:
        for op in _worth_most(kernel, loop):
            kernel.wrap(op, _name(op), _kind(op))
    if not kernel.loops:
        for op in list(kernel.ops(*presets.GLOBAL_LOADS, *presets.BUFFER_LOADS, "tt.reduce", *presets.DOTS, *presets.STORES))[
            :MOST_OUTSIDE
        ]:
            kernel.wrap(op, label(op), _kind(op))


def _worth_most(kernel: Kernel, loop: Op) -> list[Op]:
    """Waits before multiplications before loads: what a warp stands at is worth more than what it hands over."""
    from aiflame.intra import presets

    inside = [op for op in loop.inside() if op.can_be_marked and op.loop is loop]
    order = (
        presets.DOT_WAITS + presets.COPY_WAITS + ("ttng.wait_barrier",),
        presets.DOTS,
        presets.GLOBAL_LOADS + presets.BUFFER_LOADS,
        ("tt.reduce",),
        presets.STORES,
    )
    chosen = [op for names in order for op in inside if op.name in names][:MOST_IN_LOOPS]
    return sorted(chosen, key=lambda op: op.number)


def _name(op: Op) -> str:
    return f"wait {label(op)}" if _kind(op) == "wait" else label(op)


def _kind(op: Op) -> str:
    from aiflame.intra import presets

    for kind, names in (
        ("wait", presets.DOT_WAITS + presets.COPY_WAITS + ("ttng.wait_barrier",)),
        ("mma", presets.DOTS),
        ("load", presets.GLOBAL_LOADS + presets.BUFFER_LOADS),
        ("store", presets.STORES),
    ):
        if op.name in names:
            return kind
    return "region"
