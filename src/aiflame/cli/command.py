"""The protocol of a command: a module of this folder, named after the command."""

from __future__ import annotations

from argparse import Namespace
from typing import Protocol

from aiflame.cli.parser import Parser


class Command(Protocol):
    """A command's module, imported only when the command is called. `aiflame.cli.commands` has its name and its line of help."""

    @property
    def DESCRIPTION(self) -> str:
        """The question that the command answers, shown at the top of its help."""

    @property
    def EXAMPLES(self) -> tuple[str, ...]:
        """Command lines, shown at the end of its help."""

    def add_arguments(self, parser: Parser) -> None: ...

    def run(self, options: Namespace) -> int | None:
        """Runs the command and returns its exit status; None: 0."""
