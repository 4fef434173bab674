"""The protocol of a command: a module of this folder with the command's name."""

from __future__ import annotations

from argparse import Namespace
from typing import Protocol

from aiflame.cli.parser import Parser


class Command(Protocol):
    """A command's module, imported only when it is called. Its name and line of help stand in `aiflame.cli.commands`."""

    @property
    def DESCRIPTION(self) -> str:
        """The question that the command answers, at the top of its help."""

    @property
    def EXAMPLES(self) -> tuple[str, ...]:
        """Command lines, at the end of its help."""

    def add_arguments(self, parser: Parser) -> None: ...

    def run(self, options: Namespace) -> int | None:
        """The exit status; None: 0."""
