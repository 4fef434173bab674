"""Names of torch's modules: `layers.3.attn`, and the model that has it.

We wrap and hook nothing in torch. When the collector has seen modules without a name in the program's stacks, it calls us between two
instructions of the main thread. The frames of all threads show the modules that are being called; the outermost module of a stack is a
model, and all modules below it are named at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

import _aiflame

MOST_PLACES = 250_000
"""The limit for one model: if modules share modules that share modules, the number of paths explodes."""

_names: Names | None = None


def install(torch: Any) -> None:
    global _names
    if _names is None:
        atexit.register(at_exit)
        os.register_at_fork(after_in_child=recording_began)
    _names = Names(torch.nn.Module)
    _aiflame.when_layers_are_new(_names.name_running)


def recording_began() -> None:
    """A new recording (or forked child) has empty tables: forget which names were sent."""
    if _names:
        _names.forget()


def at_exit() -> None:
    """Names all models, if none was named: they may have run for too short a time, or in threads for which the main thread waited."""
    # After this the interpreter destroys its modules, including ours.
    _aiflame.when_layers_are_new(None)
    if _names and not _names.named:
        _names.name_all()


class Gone(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that keeps the address of its object."""

    __slots__ = ("address",)
    address: int


class Names:
    def __init__(self, module_class: type) -> None:
        self._module = module_class
        calls = (vars(module_class).get(name) for name in ("_call_impl", "_wrapped_call_impl"))
        self._calls: set[CodeType] = {call.__code__ for call in calls if isinstance(call, FunctionType)}
        self._alive: dict[int, Gone] = {}
        self.named: dict[int, dict[str, Gone]] = {}
        """Model → path → the module that was recorded for it."""

    def forget(self) -> None:
        self.named.clear()

    def name_running(self) -> None:
        for called in self._called_now():
            inside: set[int] = set()
            for module in called:
                if id(module) not in inside:
                    inside |= self._name(module)

    def name_all(self) -> None:
        modules = [one for one in gc.get_objects() if self._is_module(one)]
        inner = {id(child) for module in modules for _, child in self._children(module)}
        for module in modules:
            if id(module) not in inner:
                self._name(module)

    def _called_now(self) -> list[list[Any]]:
        """The called modules of each thread. Frames are dropped at once: a cycle of them would keep the program's tensors alive."""
        frames = sys._current_frames()
        try:
            return [self._called(frames.pop(thread)) for thread in list(frames)]
        finally:
            frames.clear()

    def _called(self, frame: FrameType | None) -> list[Any]:
        """The modules whose calls are on a stack, outermost first."""
        modules = []
        while frame is not None:
            if frame.f_code in self._calls:
                module = frame.f_locals.get("self")
                if self._is_module(module):
                    modules.append(module)
            frame = frame.f_back
        return modules[::-1]

    def _name(self, root: Any) -> set[int]:
        """Records the new paths of modules below a model; returns its modules."""
        named = self.named.setdefault(id(root), {})
        inside = set()
        for places, (path, module) in enumerate(self._places(root)):
            if places == MOST_PLACES:
                _aiflame.note(f"a model has more than {MOST_PLACES:,} places for modules: the others have no names")
                break
            inside.add(id(module))
            alive = self._watch(module)
            if named.get(path) is not alive:
                named[path] = alive
                _aiflame.name_layer(id(module), id(root), path, name_of(type(module)))
        return inside

    def _places(self, root: Any) -> Iterator[tuple[str, Any]]:
        """Like named_modules(), but a module with two paths comes twice. A module inside itself is not followed."""
        above: set[int] = set()
        waiting: list[tuple[str | None, Any]] = [("", root)]
        while waiting:
            path, module = waiting.pop()
            if path is None:
                above.discard(id(module))
                continue
            yield path, module
            children = self._children(module)
            if not children:
                continue
            above.add(id(module))
            waiting.append((None, module))
            waiting += [(f"{path}.{name}" if path else name, child) for name, child in reversed(children) if id(child) not in above]

    def _children(self, module: Any) -> list[tuple[str, Any]]:
        # The program's own __getattr__, properties and __class__ are never run.
        children = object.__getattribute__(module, "__dict__").get("_modules")
        if not isinstance(children, dict):
            return []
        return [(name, child) for name, child in list(children.items()) if isinstance(name, str) and self._is_module(child)]

    def _is_module(self, value: Any) -> bool:
        return issubclass(type(value), self._module)

    def _watch(self, module: Any) -> Gone:
        alive = self._alive.get(id(module))
        if alive is None or alive() is not module:
            alive = Gone(module, self._gone)
            alive.address = id(module)
            self._alive[id(module)] = alive
        return alive

    def _gone(self, reference: Gone) -> None:
        """Forgets a deleted module, since another object may get its address."""
        if self._alive.get(reference.address) is not reference:
            return
        del self._alive[reference.address]
        self.named.pop(reference.address, None)
        _aiflame.forget_layer(reference.address)


def name_of(kind: type) -> str:
    module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
    return f"{module}.{name}" if isinstance(module, str) else str(name)
