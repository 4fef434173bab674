"""Names Triton kernels: records which function of the driver is which specialization and, with --triton-names, names it in the binary.

We hook `CompiledKernel._init_handles`, the one place through which a compiled kernel of Triton's own launcher gets its function (3.2 to
3.9), for cache hits, autotuning and kernels from worker processes alike. Inductor's kernels keep their names:
they are readable already, and its static launcher looks them up in the binary by the name in the source.

The name in the binary is chosen in `ASTSource.make_ir`, where constexprs, warps and stages are known; Triton's own hooks, which allow only
one user each, stay free. The key of Triton's cache then gets a mark, so that a kernel cached under its old name is compiled again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .triton_specialization import Specialization, readable, specialization, stable, suffixes

TRITON_NAMES = 1024
"""Bit of `_aiflame.features`."""
MARK = "-aiflame-names-1"
"""The mark at the end of the cache key, for sources whose kernels we name."""
INDUCTOR = "torch._inductor."
_DONE = "_aiflame_names"

_loaded: weakref.WeakSet[Any] = weakref.WeakSet()
_process = os.getpid()


def install(triton: Any) -> None:
    """Called when the program has imported triton."""
    compiler = sys.modules.get("triton.compiler.compiler")
    kernel, source = getattr(compiler, "CompiledKernel", None), getattr(compiler, "ASTSource", None)
    if not hasattr(kernel, "_init_handles") or source is None:
        raise RuntimeError(f"Triton {getattr(triton, '__version__', '?')} loads kernels in an unknown way: they keep their names")
    if _bridge().features & TRITON_NAMES and not getattr(source, _DONE, False):
        _name_binaries(source)
        setattr(source, _DONE, True)
    if not getattr(kernel, _DONE, False):
        _listen(kernel)
        setattr(kernel, _DONE, True)
        _record_loaded(triton, kernel)


def recording_began() -> None:
    """Records the loaded kernels again, since tables are empty. The child of a fork skips its parent's kernels."""
    for kernel in [*_loaded] if _process == os.getpid() else []:
        _record(kernel)


def _bridge() -> Any:
    return sys.modules["_aiflame"]


def _listen(kernel: Any) -> None:
    load: Callable[[Any], Any] = kernel._init_handles

    def _init_handles(self: Any) -> Any:
        was_loaded = self.module is not None
        answer = load(self)
        if not was_loaded and self.module is not None:
            _record(self)
        return answer

    kernel._init_handles = _init_handles


def _record_loaded(triton: Any, kernel: Any) -> None:
    """Records kernels that the program loaded before our hook; usually none, since Triton has no driver yet."""
    driver = getattr(getattr(getattr(triton, "runtime", None), "driver", None), "driver", None)
    if getattr(driver, "_active", None) is None and getattr(driver, "_default", None) is None:
        return
    import gc

    for one in gc.get_objects():
        if type(one) is kernel and one.__dict__.get("module") is not None:
            _record(one)


def _record(kernel: Any) -> None:
    """Records a loaded kernel. Errors become notes."""
    try:
        source = kernel.src
        one = None if _is_inductors(source) else specialization(source, kernel.metadata)
        if one is None or not isinstance(kernel.function, int):
            return
        _loaded.add(kernel)
        _bridge().variant(kernel.function, kernel.name, _name_of(kernel.name, one), json.dumps(_details(kernel, one)))
    except Exception as error:
        _bridge().note(f"Triton: a kernel keeps its name: {type(error).__name__}: {error}"[:200])


def _name_of(compiled: str, one: Specialization) -> str:
    """The recorded name. A compiled name that differs from the function's was chosen by the program's `repr=`, or by us, and stays."""
    return readable(one) if compiled == one.function else compiled


def _details(kernel: Any, one: Specialization) -> dict[str, Any]:
    code = getattr(getattr(kernel.src.fn, "fn", None), "__code__", None)
    target = getattr(kernel.metadata, "target", None)
    name = readable(one)
    ours = kernel.name == one.function or kernel.name.startswith(name)
    if ours and kernel.name != one.function:
        _names_in_use.setdefault(kernel.name, tuple(suffixes(one)))
    binary = getattr(kernel, "kernel", None)
    return {
        "constexprs": {name: stable(value) for name, value in one.constexprs},
        "constants": {name: stable(value) for name, value in one.hidden},
        "signature": {name: kind for name, kind in one.signature.items() if kind != "constexpr"},
        "attributes": one.attributes,
        **{name: one.options.get(name) for name in ("num_warps", "num_stages", "num_ctas")},
        "target": f"{target.backend}:{target.arch}" if target is not None else "",
        "file": code.co_filename if code else "",
        "line": code.co_firstlineno if code else 0,
        "hash": str(kernel.hash),
        "suffixes": suffixes(one) if ours else [],
        "binary": hashlib.sha256(binary).hexdigest() if isinstance(binary, bytes) else "",
    }


def _is_inductors(source: Any) -> bool:
    return str(getattr(getattr(source, "fn", None), "__module__", "")).startswith(INDUCTOR)


class _Named(threading.local):
    """The function whose IR this thread is making, and its name in the binary."""

    function: Any = None
    name: str = ""


_now = _Named()
_names_in_use: dict[str, tuple[str, ...]] = {}
"""Names used in this process's binaries → the suffixes of their specialization."""


def _name_binaries(source: Any) -> None:
    key: Callable[[Any], str] = source.hash
    make: Callable[..., Any] = source.make_ir

    def hash(self: Any) -> str:
        return key(self) + MARK if _is_ours(self) else key(self)

    def make_ir(self: Any, *arguments: Any, **options: Any) -> Any:
        with _naming(self, [*arguments, *options.values()]):
            return make(self, *arguments, **options)

    def _is_ours(one: Any) -> bool:
        return type(one) is source and not _is_inductors(one)  # Gluon's sources make their IR themselves

    source.hash, source.make_ir = hash, make_ir


@contextlib.contextmanager
def _naming(source: Any, arguments: list[Any]) -> Iterator[None]:
    """Makes the kernel's function return our name while IR is made, in this thread only: others may compile the same function."""
    name = ""
    try:
        name = _binary_name(source, arguments)
    except Exception as error:
        _bridge().note(f"Triton: a kernel keeps its name in the binary: {type(error).__name__}: {error}"[:200])
    before = _now.function, _now.name
    _now.function, _now.name = (source.fn, name) if name else (None, "")
    try:
        yield
    finally:
        _now.function, _now.name = before


def _binary_name(source: Any, arguments: list[Any]) -> str:
    """The name in the binary; empty: the function's own."""
    options = next((each for each in arguments if hasattr(each, "num_warps")), None)
    one = None if options is None or _is_inductors(source) else specialization(source, options)
    if one is None:
        return ""
    _wrap_repr(source.fn)
    return _free_name(one)


def _wrap_repr(function: Any) -> None:
    """Wraps the `repr` of kernels, which Triton calls for the name: a method of its class; up to 3.3, a member of each function."""
    holder = next((one for one in type(function).__mro__ if "repr" in vars(one)), None)
    if holder is None and not hasattr(function.repr, _DONE):
        function.repr = functools.partial(_repr, function.repr, function)
        setattr(function.repr, _DONE, True)
    elif holder is not None and not hasattr(vars(holder)["repr"], _DONE):
        own = vars(holder)["repr"]

        def repr(self: Any, specialization: Any) -> str:
            return _repr(functools.partial(own, self), self, specialization)

        setattr(repr, _DONE, True)
        type.__setattr__(holder, "repr", repr)


def _repr(own: Callable[[Any], str], function: Any, specialization: Any) -> str:
    name = str(own(specialization))
    is_default = name.rpartition(".")[2] == function.__name__
    return _now.name if is_default and _now.function is function else name


def _free_name(one: Specialization) -> str:
    """The readable name, with a suffix (its types, if they differ) if another specialization has that name in this process."""
    name, own = readable(one), tuple(suffixes(one))
    first = _names_in_use.setdefault(name, own)
    if first == own:
        return name
    if len(own) > 1 and first[0] != own[0] and _names_in_use.setdefault(f"{name}_{own[0]}", own) == own:
        return f"{name}_{own[0]}"
    return f"{name}_{own[-1]}"
