"""Passes: functions that choose the parts of a kernel to time.

    @aiflame.intra.pass_("exponentials")
    def exponentials(kernel):
        for op in kernel.ops("math.exp2"):
            kernel.wrap(op, f"exp {op.variable}")

A pass changes nothing: it requests scopes, and marks are inserted after all passes have run (`insertion.py`). So a pass that fails leaves
the kernel unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from aiflame.intra.errors import Refused
from aiflame.intra.ops import LOOPS, Op
from aiflame.values import dataclass

MOST_SCOPES = 256
"""A record has eight bits for its scope."""
SPAN, ISSUE, WAIT = "span", "issue", "wait"


@dataclass(frozen=True, slots=True)
class Scope:
    """From before `first` to behind `last`, in one block of the kernel."""

    name: str
    of: str
    """The pass that requested it."""
    kind: str
    """load, mma, barrier, wait, store, loop, region, role, user or async."""
    first: Op
    last: Op
    phase: str = SPAN
    """`issue` and `wait`: the two ends of asynchronous work."""
    issued_by: Scope | None = None
    """For a wait: the scope that issued the awaited work."""
    needs: tuple[Op, ...] = ()
    """Loads whose values must have arrived before it ends: else arithmetic on them could be moved past its end."""


Pass = Callable[["Kernel"], None]
_passes: dict[str, Pass] = {}


def pass_(name: str) -> Callable[[Pass], Pass]:
    """Registers a function as the pass `name`, for `--intra name`."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError(f"{name!r} is no name of a pass: letters, digits, - and _")

    def register(function: Pass) -> Pass:
        _passes[name] = function
        return function

    return register


def registered() -> dict[str, Pass]:
    """The passes registered so far, by name; `catalog.known` also imports the bundled ones."""
    return dict(_passes)


class Kernel:
    """A kernel in Triton's GPU dialect: passes read its operations and request scopes."""

    def __init__(self, ops: list[Op], name: str = "", warps: int = 4) -> None:
        self.name = name
        self.warps = warps
        self.all = ops
        self.scopes: list[Scope] = []
        self._pass = "user"
        self._made_by = {result: op for op in ops for result in op.results}
        self._users: dict[int, list[Op]] = {}
        for op in ops:
            for operand in op.operands:
                self._users.setdefault(operand, []).append(op)

    # Operations -------------------------------------------------------------------------------------------------------------

    def ops(self, *names: str, loop: bool | None = None) -> Iterator[Op]:
        """Operations by name, each a regular expression for all of it (`ttng\\..*`), in program order. `loop`: only those inside
        (True) or outside (False) of loops."""
        wanted = re.compile("|".join(f"(?:{name})" for name in names) or ".*")
        for op in self.all:
            if op.can_be_marked and wanted.fullmatch(op.name) and (loop is None or loop is (op.loop is not None)):
                yield op

    @property
    def loops(self) -> list[Op]:
        return [op for op in self.all if op.name in LOOPS and op.can_be_marked]

    @property
    def innermost_loops(self) -> list[Op]:
        return [loop for loop in self.loops if not any(one.name in LOOPS for one in loop.inside())]

    @property
    def functions(self) -> list[Op]:
        return [op for op in self.all if op.name == "tt.func"]

    @property
    def roles(self) -> list[list[Op]]:
        """The blocks of a warp-specialized kernel's partitions, each with its operations, after the default one."""
        blocks: list[list[Op]] = []
        for op in self.all:
            if op.name in ("ttg.warp_specialize", "ttg.warp_specialize.partitions"):
                bodies: dict[int, list[Op]] = {}
                for child in op.children:
                    if child.name != "ttg.warp_specialize.partitions":
                        bodies.setdefault(child.region, []).append(child)
                blocks += bodies.values()
        return blocks

    def users(self, op: Op) -> list[Op]:
        """The users of its results, in program order."""
        return sorted({user for result in op.results for user in self._users.get(result, [])}, key=lambda one: one.number)

    def makers(self, op: Op) -> list[Op]:
        """The operations that make its operands; arguments of blocks have none."""
        return [self._made_by[operand] for operand in op.operands if operand in self._made_by]

    def from_source(self, op: Op, *names: str) -> Op | None:
        """The nearest operation with such a name that `op` depends on by its operands, not through loops."""
        wanted, seen, near = re.compile("|".join(names)), {op}, [op]
        while near:
            near = [maker for one in near for maker in self.makers(one) if maker not in seen]
            seen.update(near)
            for maker in near:
                if wanted.fullmatch(maker.name):
                    return maker
        return None

    # Scopes -----------------------------------------------------------------------------------------------------------------

    def wrap(self, op: Op, name: str = "", kind: str = "user") -> Scope:
        """Times one operation, including its regions."""
        return self.span(op, op, name or label(op), kind)

    def span(self, first: Op, last: Op, name: str, kind: str = "user", needs: Sequence[Op] = ()) -> Scope:
        """Times from before `first` to after `last`, which must be in one block, so that both or neither run.

        `needs`: loads whose values must have arrived when it ends."""
        return self._ask(Scope(name, self._pass, kind, first, last, needs=tuple(needs)))

    def asynchronous(
        self, issue: Op, wait: Op, name: str = "", kind: str = "async", needs: Sequence[Op] = ()
    ) -> tuple[Scope, Scope]:  # fmt: skip
        """Times asynchronous work: `issue` starts it, `wait` waits for its end."""
        name = name or label(issue)
        issued = self._ask(Scope(f"issue {name}", self._pass, kind, issue, issue, ISSUE))
        return issued, self._ask(Scope(f"wait {name}", self._pass, "wait", wait, wait, WAIT, issued, tuple(needs)))

    def waits_for(self, issued: Scope, wait: Op, name: str = "") -> Scope:
        """Times another wait for the issued work."""
        return self._ask(Scope(name or f"wait {issued.name}", self._pass, "wait", wait, wait, WAIT, issued))

    def iterations(self, loop: Op, name: str = "") -> Scope:
        """Times each iteration of a loop."""
        body = [op for op in loop.children if op.region == loop.regions - 1]
        if loop.name not in LOOPS or len(body) < 2:
            raise Refused(f"{loop} has no iterations to time")
        return self.span(body[0], body[-2], name or f"iteration of {label(loop)}", "loop")

    def whole(self, function: Op, name: str = "kernel") -> Scope | None:
        """Times a whole function; None if it has several exits."""
        body = function.children
        if len(body) < 2 or len(body) != len(body[0].siblings):
            return None
        return self.span(body[0], body[-2], name, "region")

    def _ask(self, scope: Scope) -> Scope:
        first, last = scope.first, scope.last
        if not first.can_be_marked:
            raise Refused(f"{first} lies where nothing can be timed")
        if first.siblings is not last.siblings or first.index > last.index:
            raise Refused(f"{scope.name}: {first} and {last} are not one behind the other in the same block")
        if last.last:
            raise Refused(f"{scope.name}: {last} ends its block: nothing comes behind it")
        self.scopes.append(scope)
        return scope

    def run(self, name: str, one: Pass) -> None:
        """Runs a pass. If it fails, all of its requests are dropped."""
        before, self._pass = len(self.scopes), name
        try:
            one(self)
        except BaseException:
            del self.scopes[before:]
            raise
        finally:
            self._pass = "user"


def label(op: Op) -> str:
    """`load a`, `dot acc`, `loop at 20`: a readable name."""
    word = _WORDS.get(op.name, op.name.partition(".")[2] or op.name)
    if op.name in LOOPS:
        return f"loop at {op.line}" if op.line else "loop"
    return f"{word} {op.variable}".rstrip() if op.variable or not op.line else f"{word} at {op.line}"


_WORDS = {
    "amdg.buffer_load": "load",
    "amdgpu.buffer_load": "load",
    "amdg.buffer_store": "store",
    "amdgpu.buffer_store": "store",
    "amdg.buffer_load_to_local": "copy",
    "ttg.async_copy_global_to_local": "copy",
    "ttng.async_tma_copy_global_to_local": "copy",
    "ttng.async_tma_gather": "gather",
    "ttng.async_tma_copy_local_to_global": "store",
    "ttng.async_tma_scatter": "scatter",
    "ttng.async_tma_reduce": "reduce",
    "ttng.warp_group_dot": "dot",
    "ttng.warp_group_dot_wait": "dot",
    "ttng.tc_gen5_mma": "dot",
    "ttng.tc_gen5_mma_scaled": "dot",
    "ttg.async_wait": "copies",
    "ttng.wait_barrier": "barrier",
    "ttng.async_tma_store_wait": "stores",
}
