"""The version of the readers themselves: a profile in the cache is that of the readers that made it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from aiflame.exchange.readers.trace_reader import LIBRARY

_PACKAGE = Path(__file__).parents[2]
SOURCES = (_PACKAGE / "exchange" / "readers", _PACKAGE / "profile" / "schema", LIBRARY)
"""They decide which tables a file becomes."""
_SUFFIXES = (".py", ".so", ".pyd")


def state_of_sources() -> bytes:
    """Other bytes as soon as any file of the readers is another: by names, sizes and times, since to read them all takes 30 ms."""
    return repr(sorted(_states())).encode()


def _states() -> Iterator[tuple[str, int, int]]:
    waiting = [str(path) for path in SOURCES if path.is_dir()]
    for path in SOURCES:
        if path.is_file():
            yield _state(path.parent.name, path.name, path.stat())
    while waiting:
        folder = waiting.pop()
        for entry in os.scandir(folder):
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.endswith(_SUFFIXES) and entry.is_file():
                yield _state(folder.rpartition("/")[2], entry.name, entry.stat())


def _state(folder: str, name: str, status: os.stat_result) -> tuple[str, int, int]:
    return f"{folder}/{name}", status.st_size, status.st_mtime_ns
