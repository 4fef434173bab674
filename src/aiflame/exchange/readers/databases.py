"""SQLite databases of profilers, each known by its tables."""

from __future__ import annotations

from collections.abc import Callable

from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys import report
from aiflame.exchange.readers.rocm import databases
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_file import SqliteFile


def is_one(head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\0")


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    with SqliteFile.open(source) as file:
        if databases.is_rocm(file.tables):
            making.format = "rocprofv3 or RPD SQLite"
            databases.read(file, making, progress)
        elif "StringIds" in file.tables:
            making.format = "nsys SQLite"
            report.read_tables(file, making, progress)
        else:
            raise AiflameError(f"{source.path} is an SQLite database, but neither of nsys nor of ROCm: its tables are others")
