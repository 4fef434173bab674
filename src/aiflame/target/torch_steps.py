"""Where steps end and where the program waits for data: regions around each optimizer's step and each batch of a DataLoader."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import _aiflame

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


def never() -> bool:
    return False


class Open(threading.local):
    """Steps of optimizers that the thread is in, innermost last: (optimizer, row)."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []


def optimizer_hooks(is_compiling: Callable[[], bool]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Dynamo follows the program into them and finds nothing: no graph is broken, nothing is called when compiled code runs."""
    begin, end, opened = _aiflame.begin, _aiflame.end, Open()

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

    def leave(steps: list[tuple[int, int]], address: int) -> None:
        """Ends the step of this optimizer and steps begun inside it: a step that raised has not recorded its end."""
        if any(address == known for known, _ in steps):
            while steps:
                known, row = steps.pop()
                end(row)
                if known == address:
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
