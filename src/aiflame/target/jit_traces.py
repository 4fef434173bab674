"""Records why JAX traces a jitted function again: the difference from the most similar arguments with which it was traced before."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from types import CodeType
from typing import Any

from .jit_functions import Jitted, jitted_of

TABLE = "jit_traces"
_FUNCTIONS = ("_trace_for_jit", "_infer_params_impl")
"""Functions of jax._src.pjit that trace a function for arguments with which it was not traced before. Each release has one of them."""
_DONE = "_aiflame_done"
_REMEMBERED = 8
"""The most traces of a function that are remembered."""
_MOST_FUNCTIONS = 10_000
"""The most functions that are remembered. Remembering a function keeps its code alive, so in a program that makes new code all the time the
earliest are forgotten."""
_LONGEST = 60
"""Characters of a value."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_seen: dict[tuple[CodeType, ...], deque[Trace]] = {}
_thread = threading.local()


@dataclass(frozen=True)
class Trace:
    """The arguments of one trace."""

    function: weakref.ref[Any] | None
    names: tuple[str, ...]
    """The names of the arrays in the arguments."""
    types: tuple[tuple[str, tuple[Any, ...]], ...]
    """The dtype and shape of each array."""
    static: tuple[tuple[str, str, object], ...]
    """Arguments by value: name, text, and an object that is equal for equal values."""

    def of(self, fun: Any) -> bool:
        return self.function is not None and self.function() is fun

    def difference(self, other: Trace) -> int:
        """The number of arguments that differ."""
        if self.names != other.names or len(self.static) != len(other.static):
            return 1 << 30
        pairs = [*zip(self.types, other.types), *zip(self.static, other.static)]  # noqa: B905
        return sum(one != two for one, two in pairs)


def install(pjit: Any) -> None:
    name = next((name for name in _FUNCTIONS if hasattr(pjit, name)), "")
    original = getattr(pjit, name, None)
    if original is None or hasattr(original, _DONE):
        return
    signature = inspect.signature(original)
    if not {"fun", "ji", "args", "kwargs"} <= set(signature.parameters):
        return
    stay_out_of_sight()

    @functools.wraps(original)
    def tracing(*given: Any, **named: Any) -> Any:
        if getattr(_thread, "inside", False):  # a function within another is traced because the outer one is
            return original(*given, **named)
        begin = sys.modules["_aiflame"].now_ns()
        _thread.inside = True
        try:
            result = original(*given, **named)
        finally:
            _thread.inside = False
        try:
            record(signature.bind(*given, **named).arguments, result, begin)
        except Exception as error:
            sys.modules["_aiflame"].note(f"JAX: it is not recorded why functions are traced again ({type(error).__name__})")
        return result

    setattr(tracing, _DONE, True)
    setattr(pjit, name, tracing)


def stay_out_of_sight() -> None:
    """JAX leaves out frames of this file, like its own, from the tracebacks that it shows and from the source locations that it compiles
    in."""
    for name in ("source_info_util", "traceback_util"):
        module = sys.modules.get(f"jax._src.{name}")
        register = getattr(module, "register_exclusion", None)
        if register is not None:
            register(__file__)


def record(call: dict[str, Any], result: Any, begin: int) -> None:
    fun = call["fun"]
    jitted = jitted_of(fun)
    if jitted is None:
        return
    parameters = result if hasattr(result, "in_avals") else result[0]
    trace = Trace(
        _weak(fun),
        tuple(parameters.arg_names or ()),
        tuple(map(_type, parameters.in_avals)),
        _static(call["ji"], call["args"], call["kwargs"]),
    )
    before = _seen.setdefault(jitted.wrappers, deque(maxlen=_REMEMBERED))
    if len(_seen) > _MOST_FUNCTIONS:
        _seen.pop(next(iter(_seen)), None)
    if before:
        _append(jitted, *_change(fun, trace, before), begin)
    before.append(trace)


def _change(fun: Any, trace: Trace, before: deque[Trace]) -> tuple[str, str, str, str]:
    """The property that changed, the argument, and its values before and now."""
    closest = min(reversed(before), key=trace.difference)
    if trace.names != closest.names or len(trace.static) != len(closest.static):
        new = [name for name in trace.names if name not in closest.names] or [name for name in closest.names if name not in trace.names]
        return "structure", new[0] if new else "", f"{len(closest.names)} arrays", f"{len(trace.names)} arrays"
    for (name, now, key), (_, was, old) in zip(trace.static, closest.static):  # noqa: B905
        if key != old:
            return "value", name, was, now
    names = trace.names if len(trace.names) == len(trace.types) else ("",) * len(trace.types)
    for name, (kind, shape), (old_kind, old_shape) in zip(names, trace.types, closest.types):  # noqa: B905
        if kind != old_kind:
            return "type", name, old_kind, kind
        if shape != old_shape:
            return "shape", name, _sizes(old_shape), _sizes(shape)
    return ("other" if any(one.of(fun) for one in before) else "function"), "", "", ""


def _sizes(shape: tuple[Any, ...]) -> str:
    return ",".join(map(str, shape))[:_LONGEST]


def _type(array: Any) -> tuple[str, tuple[Any, ...]]:
    kind, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    if kind is None or shape is None:
        return str(array)[:_LONGEST], ()
    return f"{kind} of Python's" if getattr(array, "weak_type", False) else str(kind), tuple(shape)


def _static(ji: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[str, str, object], ...]:
    signature = getattr(ji, "fun_signature", None)
    names = list(signature.parameters) if signature is not None else []
    values: list[tuple[str, Any]] = []
    for number in ji.static_argnums or ():
        at = number + len(args) if number < 0 else number
        if 0 <= at < len(args):
            values.append((names[at] if at < len(names) else f"argument {at}", args[at]))
    values += [(name, kwargs[name]) for name in ji.static_argnames or () if name in kwargs]
    return tuple((name, *_value(value)) for name, value in values)


def _value(value: Any) -> tuple[str, object]:
    """A value's text, and an object that is equal for equal values. JAX itself has used the value's hash before."""
    if isinstance(value, _PLAIN):
        return repr(value)[:_LONGEST], (type(value), value)
    return type(value).__qualname__, (type(value), hash(value))


def _weak(fun: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(fun)
    except TypeError:
        return None


def _append(jitted: Jitted, change: str, argument: str, before: str, now: str, begin: int) -> None:
    bridge: Any = sys.modules["_aiflame"]
    bridge.append(TABLE, jitted.name, jitted.file, jitted.line, change, argument, before, now, begin, bridge.now_ns())
