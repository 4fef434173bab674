"""`auto`: a few scopes that explain most of a kernel and hardly slow it down.

A record costs a warp some thirty cycles, and a loop's body runs often. So related operations share one scope: neighbouring loads, from the
first issue to the first use of their last value; a multiplication, from its issue to the wait for it; waits that follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

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
    STORES,
    TMA_COPIES,
    TMA_STORES,
)
from aiflame.intra.ops import Op
from aiflame.intra.passes import Kernel, label, pass_
from aiflame.intra.presets import first_user, leaves_one_in_flight, may_move, parts, roles
from aiflame.values import dataclass

MOST_IN_LOOPS = 3
MOST_OUTSIDE = 2
"""The limit for kernels without loops: marks need registers for values across them, and with more registers fewer CTAs run at once."""

_LOADS = GLOBAL_LOADS + BUFFER_LOADS
_WAITS = (*COPY_WAITS, BARRIER_WAIT)
_MATH = DOTS + ASYNC_DOTS
_HEAVY = (*_MATH, *DOT_WAITS, *_WAITS, *COPIES, *STORES, *TMA_STORES, "tt.reduce", "tt.scan", "ttng.arrive_barrier")
"""Operations that separate the work before them from the work after them."""
_NOT_COPIES = tuple(name for name in _HEAVY if name not in COPIES)


@dataclass(frozen=True, slots=True)
class _Part:
    """A possible scope."""

    first: Op
    last: Op
    name: str
    kind: str
    apart: bool = False
    """True for two scopes, one at the issue and one at the wait, because other work is between them."""
    needs: tuple[Op, ...] = ()


@pass_("auto")
def auto(kernel: Kernel) -> None:
    """The kernel's parts, and the waits in its hottest loops."""
    parts(kernel, _does_something)
    roles(kernel)
    in_roles = {id(role[0].siblings) for role in kernel.roles}
    for loop in kernel.innermost_loops:
        inside = [op for op in loop.inside() if op.can_be_marked and op.loop is loop]
        in_role = any(id(one.siblings) in in_roles for one in (loop, *loop.enclosing()))
        _ask(kernel, (_of_role if in_role else _of_loop)(kernel, inside), MOST_IN_LOOPS)
    if not kernel.loops:
        _ask(kernel, _of_loop(kernel, [op for op in kernel.all if op.can_be_marked]), MOST_OUTSIDE)


def _ask(kernel: Kernel, candidates: Sequence[_Part], most: int) -> None:
    chosen: list[_Part] = []
    for part in candidates:
        if sum(1 + one.apart for one in (*chosen, part)) <= most:
            chosen.append(part)
    for part in _in_order(chosen):
        if part.apart:
            kernel.asynchronous(part.first, part.last, part.name, "load", part.needs)
        else:
            kernel.span(part.first, part.last, part.name, part.kind, part.needs)


def _of_loop(kernel: Kernel, ops: Sequence[Op]) -> list[_Part]:
    """Candidates of a loop: waits and multiplications in turn, then reductions; without any of these, stores and loads."""
    own = [op for op in ops if op.name in COPIES]
    if any(op.name in COPIES and op.loop not in {one.loop for one in own} for op in kernel.all):
        own = []  # copies also precede the loop: the awaited data was copied iterations ago
    arrivals = [part for block in _blocks(ops) for part in (*_loads(kernel, block), *_waits(block, own))]
    dots = [part for block in _blocks(ops) for part in _dots(kernel, block)]
    in_turn = chain.from_iterable(zip_longest(_in_order(arrivals), _in_order(dots)))
    parts = [part for part in in_turn if part is not None]
    used = {part.last for part in parts}
    if not dots:
        parts += [_whole(op, "region") for op in ops if op.name == "tt.reduce" and op not in used]
    if not parts:
        parts = [_whole(op, "store") for op in ops if op.name in STORES]
        parts += [_whole(op, "load") for op in ops if op.name in _LOADS]
    return parts


def _of_role(kernel: Kernel, ops: Sequence[Op]) -> list[_Part]:
    """Candidates of a warp-specialized role: for a producer, its waits for room and its copies; for a consumer, only its first wait for
    copied data, since each of its records delays all roles."""
    waits = [part for block in _blocks(ops) for part in _waits(block, [])]
    copies = [op for op in ops if op.name in COPIES]
    if not copies:
        return waits[:1] or _of_loop(kernel, ops)
    first = [op for op in _until(copies[0], _NOT_COPIES) if op.name in COPIES]
    return [*waits[:2], _Part(first[0], first[-1], f"issue {_copies(first)}", "load")]


def _loads(kernel: Kernel, block: Sequence[Op]) -> Iterator[_Part]:
    """Groups of loads without other work between them, each in flight until the last of them is needed."""
    together: list[tuple[Op, Op]] = []
    for op in block:
        if op.name in _LOADS:
            user = first_user(kernel, op)
            together += [(op, user)] if user is not None else []
        elif op.regions or op.last or op.name in _HEAVY:
            yield from _in_flight([pair for pair in together if pair[1].index <= op.index], apart=False)
            yield from _in_flight([pair for pair in together if pair[1].index > op.index], apart=True)
            together = []


def _in_flight(together: Sequence[tuple[Op, Op]], apart: bool) -> Iterator[_Part]:
    if together:
        last = max((user for _, user in together), key=lambda one: one.index)
        yield _Part(together[0][0], last, _names([op for op, _ in together]), "wait", apart, tuple(may_move(together)))


def _waits(block: Sequence[Op], own: Sequence[Op]) -> Iterator[_Part]:
    """Waits for copies and barriers; neighbouring waits become one candidate.

    `own`: copies that an iteration both makes and awaits, which become one candidate with their wait."""
    waits: list[Op] = []
    for op in (*block, None):
        if waits and (op is None or op.last or op.regions or op.name in _HEAVY) and (op is None or op.name != waits[0].name):
            ahead = [one for one in own if one.index < waits[0].index and waits[0] in _until(one, _NOT_COPIES)]
            yield _Part(ahead[0], waits[-1], _names(ahead), "wait") if ahead else _wait(waits, block)
            waits = []
        if op is not None and op.name in _WAITS:
            waits.append(op)


def _wait(waits: Sequence[Op], block: Sequence[Op]) -> _Part:
    first, last = waits[0], waits[-1]
    behind = _until(last)[-1]
    copies = [op for op in block if op.name in COPIES]
    multiplies = any(op.name in _MATH for op in block)
    if first.name == BARRIER_WAIT and behind.name in COPIES and not multiplies:
        name = f"wait for room {first.variable or behind.variable}".rstrip()
    elif first.name == BARRIER_WAIT and behind.name in _MATH and all(op.name in TMA_COPIES for op in copies):
        name = f"wait {_copies(copies)}"
    elif first.name == COPY_WAITS[0]:
        name = f"wait {_copies([op for op in copies if op.name not in TMA_COPIES])}"
    else:
        name = f"wait {label(first)}"
    return _Part(first, last, name, "wait")


def _copies(ops: Sequence[Op]) -> str:
    """`copies a, b`. Some copies have no variable name."""
    return " ".join(["copies", ", ".join(dict.fromkeys(op.variable for op in ops if op.variable))]).rstrip()


def _dots(kernel: Kernel, block: Sequence[Op]) -> Iterator[_Part]:
    """Multiplications, from issue to wait. A wait that leaves one in flight awaits an older multiplication, and is a candidate alone."""
    waits = [op for op in block if op.name in DOT_WAITS]
    for op in block:
        if op.name in DOTS or (op.name == "ttng.warp_group_dot" and not waits):
            yield _whole(op, "mma")
    for wait in waits:
        dot = kernel.from_source(wait, *ASYNC_DOTS)
        own = dot is not None and dot.siblings is wait.siblings and _until(dot)[-1] is wait
        if dot is not None and own and not leaves_one_in_flight(kernel, wait):
            yield _Part(dot, wait, label(dot), "wait")
        else:
            yield _Part(wait, wait, f"wait {label(wait)}", "wait")


def _whole(op: Op, kind: str) -> _Part:
    return _Part(op, op, label(op), kind)


def _names(ops: Sequence[Op]) -> str:
    """`load a, b`"""
    more = [op.variable for op in ops[1:] if op.variable and op.variable != ops[0].variable]
    return ", ".join([label(ops[0]), *dict.fromkeys(more)])


def _in_order(parts: Sequence[_Part]) -> list[_Part]:
    return sorted(parts, key=lambda one: one.first.number)


def _blocks(ops: Sequence[Op]) -> list[list[Op]]:
    blocks: dict[int, list[Op]] = {}
    for op in ops:
        blocks.setdefault(id(op.siblings), []).append(op)
    return list(blocks.values())


def _until(op: Op, names: tuple[str, ...] = _HEAVY) -> list[Op]:
    """From an operation to the next separating operation of its block (or the next of `names`), inclusive."""
    following = op.siblings[op.index :]
    end = next((at for at, one in enumerate(following[1:], 1) if one.name in names or one.regions), len(following) - 1)
    return following[: end + 1]


def _does_something(ops: Sequence[Op]) -> bool:
    """True if there is more than arithmetic on indices."""
    heavy = (*_HEAVY, *_LOADS, *COPIES, *BARRIERS, "ttng.tensormap_create")
    return any(one.name in heavy or one.regions for op in ops for one in (op, *op.inside()))
