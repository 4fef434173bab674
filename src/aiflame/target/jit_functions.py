"""Makes the collector record calls of the functions that a program jits, and gives it their names. Functions that JAX itself jits while it
is imported are left out."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from types import CodeType
from typing import Any

TABLE = "jit_functions"
_FUNCTION = "_cpp_pjit"
"""A function of jax._src.pjit, which makes the object that `jax.jit` returns."""
_OWN = "jax._src"
_DONE = "_aiflame_done"
_DEEPEST = 50
_named: dict[int, Jitted] = {}
"""By address: the newest object at it."""


@dataclass(frozen=True)
class Jitted:
    """A function that the program gave to `jax.jit`."""

    name: str
    """`value_and_grad(loss)`: with JAX's transformations around the program's function."""
    file: str
    line: int
    """0: unknown"""
    wrappers: tuple[CodeType, ...]
    """The code of the function, and of all wrappers around it."""


def install(pjit: Any) -> None:
    original = getattr(pjit, _FUNCTION, None)
    if original is None or hasattr(original, _DONE):
        return

    @functools.wraps(original)
    def watched(fun: Any, *args: Any, **named: Any) -> Any:
        function = original(fun, *args, **named)
        try:
            watch(function, fun)
        except Exception as error:
            sys.modules["_aiflame"].note(f"JAX: calls of a jitted function are not recorded ({type(error).__name__})")
        return function

    setattr(watched, _DONE, True)
    setattr(pjit, _FUNCTION, watched)


def recording_began() -> None:
    """Records the names again, in another recording of this process."""
    for address, jitted in list(_named.items()):
        _append(address, jitted)


def watch(function: Any, fun: Any) -> None:
    """`function`: the product of `jax.jit` for `fun`."""
    jitted = jitted_of(fun)
    if jitted is None or not sys.modules["_aiflame"].watch_jit_calls(function, type(function).__basicsize__):
        return
    if _named.get(id(function)) != jitted:
        _named[id(function)] = jitted
        _append(id(function), jitted)


def jitted_of(fun: Any) -> Jitted | None:
    """None: the function is JAX's own."""
    if str(getattr(fun, "__module__", "")).startswith(_OWN):
        return None
    codes: list[CodeType] = []
    transformations: list[str] = []
    for _ in range(_DEEPEST):
        code = getattr(fun, "__code__", None)
        if isinstance(code, CodeType):
            codes.append(code)
        inner = fun.func if isinstance(fun, functools.partial) else getattr(fun, "__wrapped__", None)
        if inner is None:
            break
        if isinstance(code, CodeType) and "/jax/_src/" in code.co_filename:
            transformations.append(code.co_name.removesuffix("_f"))
        fun = inner
    name = str(getattr(fun, "__qualname__", "") or type(fun).__qualname__)
    code = getattr(fun, "__code__", None)
    place = (code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else ("", 0)
    return Jitted("(".join([*transformations, name]) + ")" * len(transformations), *place, tuple(codes))


def _append(address: int, jitted: Jitted) -> None:
    bridge: Any = sys.modules["_aiflame"]
    bridge.append(TABLE, address, jitted.name, jitted.file, jitted.line, bridge.now_ns())
