"""The lines of a text, however long the file is."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator

from aiflame.errors import AiflameError
from aiflame.exchange.readers.source import Source

_LONGEST = 16 << 20
"""Bytes of a line."""
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def lines(source: Source, progress: Callable[[float], None]) -> Iterator[tuple[int, bytes]]:
    """Each line in UTF-8, without its end, and its number from 1."""
    number, kept = 0, b""
    for text in _blocks(source, progress):
        parts = (kept + text).split(b"\n")
        kept = parts.pop()
        if len(kept) > _LONGEST:
            raise AiflameError(
                f"{source.path}, line {number + len(parts) + 1}: has more than {_LONGEST >> 20} MB: no profiler writes such a line"
            )
        for line in parts:
            number += 1
            yield number, line.rstrip(b"\r")
    if kept:
        yield number + 1, kept.rstrip(b"\r")


def as_utf8(head: bytes) -> bytes:
    """The begin of a text without its mark of order, in UTF-8."""
    encoding = _UTF16.get(head[:2])
    if encoding is not None:
        return head[2:].decode(encoding, "replace").encode("utf-8", "replace")
    return head.removeprefix(codecs.BOM_UTF8)


def _blocks(source: Source, progress: Callable[[float], None]) -> Iterator[bytes]:
    encoding = _UTF16.get(source.head[:2])
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding is not None else None
    first = True
    for block, share in source.blocks(4 << 20):
        progress(share)
        part = bytes(block) if not first else bytes(block).removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            part = decoder.decode(part).removeprefix("\ufeff" if first else "").encode("utf-8", "replace")
        first = False
        yield part
