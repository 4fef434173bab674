"""The text of source files that a profile names: as it was recorded, else from this disk when it is surely still the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from aiflame.profile.meta import Meta

_LARGEST = 16 << 20


class Origin(str, Enum):
    PROFILE = "profile"
    DISK = "disk"
    CHANGED = "changed"
    """The file is here, but younger than the recording: its lines would be the wrong ones."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SourceText:
    path: str
    origin: Origin
    lines: tuple[str, ...] = ()

    def line(self, number: int) -> str | None:
        """Lines count from 1; None where the text is not known."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None


def source_text(path: str, recorded: Mapping[str, str] | None, meta: Meta) -> SourceText:
    """`recorded`: the texts that the profile has; None when nobody has looked for any.

    A text that was looked for and is not there was no longer what the kernel had been compiled from: then the disk does not help.
    """
    if recorded is not None:
        return SourceText(path, Origin.PROFILE, _lines(recorded[path])) if path in recorded else SourceText(path, Origin.MISSING)
    if meta.host.name != platform.node():
        return SourceText(path, Origin.MISSING)
    try:
        file = Path(path)
        state = file.stat()
        if not file.is_file() or not file.is_absolute() or state.st_size > _LARGEST:
            return SourceText(path, Origin.MISSING)
        if state.st_mtime_ns > meta.started.realtime_ns:
            return SourceText(path, Origin.CHANGED)
        return SourceText(path, Origin.DISK, _lines(file.read_text(encoding="utf-8", errors="replace")))
    except (OSError, ValueError):
        return SourceText(path, Origin.MISSING)


def _lines(text: str) -> tuple[str, ...]:
    """As compilers count them: str.splitlines would also break at form feeds."""
    return tuple(text.replace("\r\n", "\n").split("\n"))
