"""`aiflame.region("Forward")`: a region of time that the program names itself, as a context manager or a decorator.

    with aiflame.region("Forward"):
        ...

    @aiflame.region("load", domain="io")
    def load(path): ...

Runs in the profiled program: the standard library alone, and next to nothing while nothing is recorded. The records are made by the module
`_aiflame`, which the collector puts into `sys.modules`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

_modules = sys.modules


class Region:
    """A region of this name in the calling thread, inside the regions in which the thread is already.

    One object may be used again and again, in several threads at once. A decorated coroutine or generator is in the region whenever it
    runs, not while it waits: a `with` around an `await` would include other tasks' work.
    """

    __slots__ = ("category", "color", "domain", "name")

    def __init__(self, name: str, *, domain: str = "", category: str = "", color: int = 0) -> None:
        """`color` is ARGB, such as 0xff76b900; 0 leaves it to the viewer."""
        if not isinstance(name, str):
            raise TypeError(f'a region has a name: aiflame.region("Forward"), not {name!r}')
        self.name = name
        self.domain = domain
        self.category = category
        self.color = color

    # While nothing is recorded, these are C functions that accept the arguments of a `with` and return nothing, since a single call of
    # Python would use up the time that a region may take. listen() replaces them by the real ones.
    __enter__: Any = {}.clear
    __exit__: Any = "".format

    def __call__(self, function: Function) -> Function:
        """`function`, each call of it in this region."""
        wrapped: Function = _wrapped(self, function)
        return wrapped

    def __repr__(self) -> str:
        return f"aiflame.region({self.name!r})"


def _enter(self: Region) -> None:
    bridge: Any = _modules.get("_aiflame")
    if bridge is not None:
        bridge.push(self.name, self.domain, self.category, self.color)


def _exit(self: Region, *_: object) -> None:
    bridge: Any = _modules.get("_aiflame")
    if bridge is not None:
        bridge.pop(self.domain)


# Constructing a region takes longer than entering and leaving it, so each name's region is constructed once. Type checkers see the class.
region = Region if TYPE_CHECKING else functools.lru_cache(maxsize=1024)(Region)

_NOTHING = Region.__enter__, Region.__exit__
_listeners = 0


def _listen(change: int) -> None:
    global _listeners
    _listeners += change
    Region.__enter__, Region.__exit__ = (_enter, _exit) if _listeners else _NOTHING


@contextmanager
def listening() -> Iterator[None]:
    """While the program records itself, regions are recorded."""
    _listen(1)
    try:
        yield
    finally:
        _listen(-1)


# A program that is recorded from outside knows it when it starts.
if "_aiflame" in _modules or "AIFLAME_PROFILE" in os.environ:
    _listen(1)


def _wrapped(where: Region, function: Any) -> Any:
    import inspect

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _Resumed(where, function(*args, **kwargs))

        return coroutine
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = function(*args, **kwargs)
            step = inner.__anext__()
            while True:
                try:
                    value = await _Resumed(where, step)
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    await _Resumed(where, inner.aclose())
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

        return async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from _Resumed(where, function(*args, **kwargs)))

        return generator

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _listeners:
            return function(*args, **kwargs)
        with where:
            return function(*args, **kwargs)

    return call


class _Resumed:
    """A coroutine or generator that is in a region each time it continues."""

    __slots__ = ("_inner", "_where")

    def __init__(self, where: Region, inner: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]) -> None:
        self._where = where
        self._inner = inner

    def __iter__(self) -> _Resumed:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        with self._where:
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        with self._where:
            return self._inner.throw(*error)

    def close(self) -> None:
        with self._where:
            self._inner.close()
