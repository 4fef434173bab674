"""The texts of source files, stored in the profile when it is completed: generated files are soon removed, and later readers must not read
others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from aiflame.resolve.device.cubin_lines import File
from aiflame.resolve.files.outside import Outside, Source
from aiflame.resolve.names.readable import clean
from aiflame.values import dataclass, field

LARGEST = 2 << 20
ALL = 64 << 20


@dataclass(slots=True)
class Sources:
    text: dict[str, str] = field(default_factory=dict)
    """By path, as in the tables of lines."""
    notes: list[str] = field(default_factory=list)


def sources(files: Iterable[File], folders: Sequence[str], outside: Outside) -> Sources:
    """The texts of the files that can be read; `folders`: folders to which relative paths may refer."""
    texts = Sources()
    changed, room = [], ALL
    for file in sorted(files, key=lambda file: (file.path, file.bytes)):
        name = clean(file.path)
        if not file.path or name in texts.text:
            continue
        source = _read(file, folders, outside)
        if source.changed:
            changed.append(name)
        elif source.content is not None and len(source.content) <= room and (text := text_of(source.content)) is not None:
            texts.text[name] = text
            room -= len(source.content)
    changed = [name for name in dict.fromkeys(changed) if name not in texts.text]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        texts.notes.append(f"{changed[0]}{more} changed after GPU code was compiled from it: its text is not kept")
    return texts


def _read(file: File, folders: Sequence[str], outside: Outside) -> Source:
    path = Path(file.path)
    if not path.is_absolute() and not file.bytes:
        return Source()  # not enough to be certain that it is the right file
    candidates = [path] if path.is_absolute() else [Path(folder) / path for folder in folders if folder.startswith("/")]
    contents = [outside.source(candidate, file.bytes, LARGEST) for candidate in candidates]
    return next(
        (source for source in contents if source.content is not None), next((source for source in contents if source.changed), Source())
    )


def text_of(data: bytes) -> str | None:
    """None if the data is not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
