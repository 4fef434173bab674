"""Calls the program's launch hooks around the launch of a twin."""

from __future__ import annotations

from typing import Any

from aiflame.values import dataclass, field


@dataclass(slots=True)
class Hooks:
    """The program's hooks for one launch. Each is called once, whichever kernel is launched; its exceptions go to the program."""

    on_enter: Any = None
    """None after the call."""
    on_exit: Any = None
    raised: bool = False
    """True if `on_enter` raised."""
    launched: list[Any] = field(default_factory=list)
    """Not empty once the kernel is on its stream: Triton calls its `append` then, during which no signal handler can raise."""

    def enter(self, metadata: Any) -> None:
        hook, self.on_enter = self.on_enter, None
        if hook is not None:
            self.raised = True
            hook(metadata)
            self.raised = False
