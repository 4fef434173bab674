"""Arrow IPC streams that name their table in the metadata of their schema, as `nsys export -t arrow` writes them."""

from __future__ import annotations

import io
import struct

import polars as pl


def stream(table: str, rows: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    rows.write_ipc_stream(out)
    return with_metadata(out.getvalue(), b"table_name", table.encode())


def with_metadata(data: bytes, key: bytes, value: bytes) -> bytes:
    """The stream with another description of its schema, which has a pair of texts and points to the fields in the old one."""
    (size,) = struct.unpack_from("<I", data, 4)
    old = data[8 : 8 + size]
    schema = _pointed(old, _field(old, struct.unpack_from("<I", old)[0], 2))
    fields = _pointed(old, _field(old, schema, 1))
    key_text, value_text = (struct.pack("<I", len(text)) + text + bytes(4 - len(text) % 4) for text in (key, value))
    texts = key_text + value_text
    texts += bytes(-(92 + len(texts)) % 8)
    message = struct.pack("<I6HihBxI4xq", 16, 12, 24, 4, 6, 8, 16, 12, 4, 1, 52 - 24, 0)
    table = struct.pack("<5H2xiII", 10, 12, 0, 4, 8, 12, 92 + len(texts) + fields - 56, 4)
    pair = struct.pack("<II4HiII", 1, 80 - 68, 8, 12, 4, 8, 8, 92 - 84, 92 + len(key_text) - 88)
    new = message + table + pair + texts + old
    return struct.pack("<II", 0xFFFFFFFF, len(new)) + new + data[8 + size :]


def _field(buffer: bytes, table: int, number: int) -> int:
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    return int(table + struct.unpack_from("<H", buffer, vtable + 4 + 2 * number)[0])


def _pointed(buffer: bytes, place: int) -> int:
    return int(place + struct.unpack_from("<I", buffer, place)[0])
