"""Lines that commands print beside their tables: paths of written files, and notes."""

from __future__ import annotations

import contextlib
import sys

from aiflame.errors import harmless
from aiflame.json_text import json_text, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def say(text: object = "", *, err: bool = False) -> None:
    """Prints a line. On a terminal control characters are replaced; a program that reads our output gets paths unchanged. A line on stderr
    that nobody reads any more changes nothing."""
    file = sys.stderr if err else sys.stdout
    if file is not None:
        line = str(text)
        with contextlib.suppress(OSError) if err else contextlib.nullcontext():
            print(harmless(line) if file.isatty() else line, file=file, flush=True)


def say_json(text: str) -> None:
    """Prints a document from `aiflame.json_text`, which has escaped control characters."""
    print(text, flush=True)


def say_written(command: str, file: Path, **facts: object) -> None:
    """The document of a command that wrote a file: its path and size, and facts about it. Of a folder the size of its files."""
    size = sum(one.stat().st_size for one in file.iterdir()) if file.is_dir() else file.stat().st_size
    say_json(json_text({"schema": schema(command), "file": str(file), "bytes": size, **facts}, indent=1))
