"""The terminal on which tables and lines are printed. Names in a profile may come from a stranger, and must not control it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from aiflame.errors import harmless


class Terminal(Console):
    """Shows control characters, and those that change the direction of writing, as question marks; line ends of our own stay. Texts have no
    markup: `[red]` is no colour, `:smile:` no picture; styled text is a `rich.text.Text`."""

    def __init__(self, *, file: IO[str] | None = None, stderr: bool = False, force_terminal: bool | None = None, width: int | None = None):
        super().__init__(file=file, stderr=stderr, force_terminal=force_terminal, width=width, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment("\n".join(map(harmless, segment.text.split("\n"))), segment.style)
