"""Triton's hooks of a program around its launches, for launches of a twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Hooks:
    """The program's own, of one launch: each is called once, whichever kernel is launched in the end; what it raises is the program's."""

    on_enter: Any = None
    """None once it was called."""
    on_exit: Any = None
    raised: bool = False
    """By `on_enter`."""
    launched: list[Any] = field(default_factory=list)
    """Not empty once the kernel is on its stream: Triton is given its `append` to call then, in which no signal's handler can raise."""

    def enter(self, metadata: Any) -> None:
        hook, self.on_enter = self.on_enter, None
        if hook is not None:
            self.raised = True
            hook(metadata)
            self.raised = False
