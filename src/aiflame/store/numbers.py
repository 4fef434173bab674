"""Ids in a store: hashes of content, so that the same thing has the same id in every hour. Standard library alone."""

from __future__ import annotations

import struct
from hashlib import blake2b

_U64 = struct.Struct("<QQ")


def number_of(*facts: object) -> int:
    return int.from_bytes(blake2b(repr(facts).encode("utf-8", "replace"), digest_size=8).digest(), "little")


def stack_number(parent: int, frame: int) -> int:
    return int.from_bytes(blake2b(_U64.pack(parent, frame), digest_size=8).digest(), "little")
