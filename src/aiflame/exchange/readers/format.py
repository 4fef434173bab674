"""The description of a format that can be imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.values import dataclass

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    """for people"""
    is_one: Callable[[bytes], bool]
    """by the first megabyte"""
    read: Callable[[Source, Making, Progress], None]
    marked: bool = True
    """False: other texts may look like it; in a folder or an archive such a file is passed over."""


@dataclass(frozen=True, slots=True)
class FolderFormat:
    """A format whose files lie in a folder of their own, and mean something together only."""

    name: str
    is_one: Callable[[Path], bool]
    read: Callable[[Path, Making, Progress], None]
