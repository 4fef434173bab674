"""Lines that commands print beside their tables: where a file was written, what is noteworthy."""

from __future__ import annotations

import sys

from aiflame.errors import harmless


def say(text: object = "", *, err: bool = False) -> None:
    """A line. A terminal gets no control characters; a program that reads our output gets a path as it is."""
    file = sys.stderr if err else sys.stdout
    if file is not None:
        line = str(text)
        print(harmless(line) if file.isatty() else line, file=file, flush=True)


def say_json(text: str) -> None:
    """A document of `aiflame.json_text`, which has escaped what a terminal would obey."""
    print(text, flush=True)
