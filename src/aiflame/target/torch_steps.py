"""Records regions around each optimizer step, which ends a training step, and each batch of a DataLoader."""

from __future__ import annotations

import functools
import multiprocessing
import sys
import threading
from collections.abc import Callable
from typing import Any

import _aiflame

from . import memory_growth

DOMAIN = "aiflame"
AUTOMATIC, NESTED = 4, 1
"""RegionApi.AUTOMATIC, RegionKind.NESTED"""
_DONE = "_aiflame_steps"


def install(torch: Any) -> None:
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or never
    optimizers = sys.modules.get("torch.optim.optimizer")
    if optimizers is not None and not hasattr(optimizers, _DONE):
        before, after = optimizer_hooks(is_compiling)
        optimizers.register_optimizer_step_pre_hook(before)
        optimizers.register_optimizer_step_post_hook(after)
        setattr(optimizers, _DONE, True)
    loaders = sys.modules.get("torch.utils.data.dataloader")
    iterator = getattr(loaders, "_BaseDataLoaderIter", None)
    if iterator is not None and not hasattr(iterator.__next__, _DONE):
        iterator.__next__ = loading(iterator.__next__, is_compiling)
    workers = getattr(sys.modules.get("torch.utils.data._utils.worker"), "WorkerInfo", None)
    if workers is not None and not hasattr(workers.__init__, _DONE):
        workers.__init__ = naming_workers(workers.__init__)


def naming_workers(init: Callable[..., None]) -> Callable[..., None]:
    """A worker of a DataLoader makes its `WorkerInfo` first: its main thread gets a name with the worker's number."""

    @functools.wraps(init)
    def wrapper(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        try:
            if multiprocessing.parent_process() is not None:
                _aiflame.append("thread_names", threading.get_native_id(), _aiflame.now_ns(), f"DataLoader worker {self.id}")
        except Exception:
            pass  # another version of torch may number its workers otherwise

    setattr(wrapper, _DONE, True)
    return wrapper


def never() -> bool:
    return False


class Open(threading.local):
    """The open optimizer steps of a thread, innermost last: (optimizer, row)."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []


def optimizer_hooks(is_compiling: Callable[[], bool]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Dynamo traces these hooks and sees empty functions: graphs do not break, and compiled code does not call them."""
    begin, end, step_ended, opened = _aiflame.begin, _aiflame.end, memory_growth.step_ended, Open()

    def before_step(optimizer: Any, arguments: Any, keywords: Any) -> None:
        if is_compiling():
            return
        address, steps = id(optimizer), opened.steps
        if steps:
            leave(steps, address)
        steps.append((address, begin("optimizer", DOMAIN, AUTOMATIC, NESTED, address)))

    def after_step(optimizer: Any, arguments: Any, keywords: Any) -> None:
        if is_compiling():
            return
        leave(opened.steps, id(optimizer))
        step_ended()

    def leave(steps: list[tuple[int, int]], address: int) -> None:
        """Ends the step of this optimizer and steps begun inside it: a step that raised has not recorded its end."""
        if any(address == opened_by for opened_by, _ in steps):
            while steps:
                opened_by, row = steps.pop()
                end(row)
                if opened_by == address:
                    break

    return before_step, after_step


def loading(next_batch: Callable[[Any], Any], is_compiling: Callable[[], bool]) -> Callable[[Any], Any]:
    begin, end = _aiflame.begin, _aiflame.end

    @functools.wraps(next_batch)
    def __next__(self: Any) -> Any:
        if is_compiling():
            return next_batch(self)
        row = begin("data", DOMAIN, AUTOMATIC, NESTED)
        try:
            return next_batch(self)
        finally:
            end(row)

    setattr(__next__, _DONE, True)
    return __next__
