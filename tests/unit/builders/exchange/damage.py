"""Damaged copies of a file: each is a profile in the end, or an error in one sentence."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.exchange.readers.format import Format
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.door import Folder


def content(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def damaged_copies(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Bytes changed, a part cut out, the end cut off, a part doubled; numbers made large or negative."""
    chance = random.Random(seed)
    for number in range(count):
        copy = bytearray(data)
        at, until = sorted(chance.randrange(len(data)) for _ in range(2))
        until = min(until, at + 4000)
        match number % 5:
            case 0:
                for _ in range(chance.randrange(1, 12)):
                    copy[chance.randrange(len(copy))] = chance.randrange(256)
            case 1:
                del copy[at:until]
            case 2:
                del copy[at:]
            case 3:
                copy[until:until] = copy[at:until]
            case 4:
                digits = [place for place, byte in enumerate(copy) if 48 <= byte < 58] or [0]
                for _ in range(chance.randrange(1, 6)):
                    place = chance.choice(digits)
                    copy[place : place + 1] = chance.choice([b"-1", b"99999999999999999999", b"1e999", b"null", b"0", b'"x"'])
        yield bytes(copy)


def survives(of: Format, data: bytes, folder: Path) -> bool:
    """Whether a reader makes a profile of it; False: an error for people."""
    folder.mkdir()
    file = folder / "file"
    file.write_bytes(data)
    making = Making(Folder.new(folder / "made"))
    try:
        of.read(Source.open(file), making, lambda share: None)
    except AiflameError as error:
        assert str(error) and "\n" not in str(error)
        return False
    making.finish(of.name, ("file",), "0")
    return True
