"""Lines that commands print beside their tables: paths of written files, and notes."""

from __future__ import annotations

import sys

from aiflame.errors import harmless


def say(text: object = "", *, err: bool = False) -> None:
    """Prints a line. Control characters are replaced on a terminal; a program that reads our output gets paths unchanged."""
    file = sys.stderr if err else sys.stdout
    if file is not None:
        line = str(text)
        print(harmless(line) if file.isatty() else line, file=file, flush=True)


def say_json(text: str) -> None:
    """A document of `aiflame.json_text`, which has escaped control characters."""
    print(text, flush=True)
