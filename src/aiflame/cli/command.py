"""What a command is: a module of this folder with the command's name."""

from __future__ import annotations

from argparse import Namespace
from typing import Protocol

from aiflame.cli.parser import Parser


class Command(Protocol):
    """Its name and its line of help stand in the table (`aiflame.cli.commands`): the module is imported only when the command is called."""

    @property
    def DESCRIPTION(self) -> str:
        """The question that the command answers, at the top of its help."""

    @property
    def EXAMPLES(self) -> tuple[str, ...]:
        """Command lines, at the end of its help."""

    def add_arguments(self, parser: Parser) -> None: ...

    def run(self, options: Namespace) -> int | None:
        """The exit status; None: 0."""
