"""The texts of source files that a profile names: as stored in the profile, otherwise from a folder that the reader chooses.

No other file is read: a profile may come from a stranger, and could name any file of the reader's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.values import dataclass

_LARGEST = 16 << 20
_DEEPEST = 64
"""The most components of a path that are tried."""


class Origin(str, Enum):
    PROFILE = "profile"
    SOURCE_PATH = "source-path"
    """The text comes from a folder of the reader, who must know whether its version is the same."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SourceText:
    path: str
    origin: Origin
    lines: tuple[str, ...] = ()

    def line(self, number: int) -> str | None:
        """Lines count from 1; None if the text is unknown."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None


class SourceFolder:
    """`--source-path DIR`: a source file is looked up in it by the end of its path, the longest end first."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise AiflameError(f"--source-path {folder}: no such folder")
        self._folder = folder.resolve()

    def read(self, path: str) -> str | None:
        parts = [part for part in path.split("/") if part not in ("", ".")][-_DEEPEST:]
        if ".." in parts or "\0" in path:
            return None
        for first in range(len(parts)):
            if (text := self._text(self._folder.joinpath(*parts[first:]))) is not None:
                return text
        return None

    def _text(self, path: Path) -> str | None:
        """None if a link leads out of the folder."""
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._folder) or not stat.S_ISREG(real.lstat().st_mode):
                return None
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                content = file.read(_LARGEST + 1)
        except (OSError, ValueError, RuntimeError):
            return None
        return content.decode("utf-8", "replace") if len(content) <= _LARGEST else None


class SourceTexts:
    """The source texts of one profile. `folder`: the reader's `--source-path`."""

    def __init__(self, profile: OpenedProfile, folder: SourceFolder | None = None) -> None:
        self._profile, self._folder = profile, folder
        self._stored: Mapping[str, str] = dict(profile.table("sources").select("path", "text").rows()) if profile.has("sources") else {}
        self._read: dict[str, str | None] = {}

    def of(self, path: str) -> SourceText:
        if path in self._stored:
            return SourceText(path, Origin.PROFILE, _lines(self._stored[path]))
        text = self._from_folder(path)
        return SourceText(path, Origin.MISSING) if text is None else SourceText(path, Origin.SOURCE_PATH, _lines(text))

    @property
    def has_folder(self) -> bool:
        return self._folder is not None

    def all(self, more: Iterable[str] = ()) -> dict[str, str]:
        """All available texts, by the paths in the profile's lines. `more`: files besides those of GPU code that the reader's folder may
        have."""
        texts = dict(self._stored)
        if self._folder is not None:
            of_kernels = self._profile.scan("gpu_lines").select("file").unique().collect() if self._profile.has("gpu_lines") else None
            for path in sorted({*more, *(of_kernels["file"] if of_kernels is not None else ())}):
                if path not in texts and (text := self._from_folder(path)) is not None:
                    texts[path] = text
        return texts

    def _from_folder(self, path: str) -> str | None:
        if self._folder is None or not path:
            return None
        if path not in self._read:
            self._read[path] = self._folder.read(path)
        return self._read[path]


def _lines(text: str) -> tuple[str, ...]:
    """Splits a text into lines as compilers count them: str.splitlines would also break at form feeds."""
    return tuple(text.replace("\r\n", "\n").split("\n"))
