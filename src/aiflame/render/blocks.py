"""Blocks: the data of a report's page, each a JSON head and columns, gzipped.

Little-endian: u32 length of the head, the head, then each of its `columns` [name, kind, count, planes, wide]. Numbers are byte planes, a
byte of each value a plane, lowest first: planes of small numbers are runs of zeros, which gzip swallows. Kinds:

- `plain`: whole numbers from 0
- `delta`: each value's difference from the one before (the first from 0), folded so that small ones of either sign are small
- `text`: `planes` is the number of bytes; UTF-8 texts one after another, and before it a column of their lengths, called `NAME.length`

`wide` columns hold values of 2^31 or more, and stay below 2^53. `render/web/blocks.js` reads them.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.render.clean_text import cleaned

GZIP_LEVEL = 5
WIDE = 1 << 31
MOST = (1 << 53) - 1
"""The largest whole number up to which a double is exact."""

Values = NDArray[np.integer] | pl.Series
"""Numbers, or a Series of texts."""


def block(head: Mapping[str, object], columns: Mapping[str, Values], sorted_columns: frozenset[str] = frozenset()) -> bytes:
    """`sorted_columns`: columns whose neighbours differ little."""
    listed: list[list[object]] = []
    parts: list[bytes] = []
    for name, values in columns.items():
        if isinstance(values, pl.Series) and values.dtype == pl.String:
            texts = cleaned(values.fill_null(""))
            lengths = texts.str.len_bytes().to_numpy().astype(np.int64)
            _number(listed, parts, f"{name}.length", lengths, delta=False)
            joined = "".join(texts.to_list()).encode()
            listed.append([name, "text", len(texts), len(joined), False])
            parts.append(joined)
        else:
            _number(listed, parts, name, np.asarray(values, dtype=np.int64), delta=name in sorted_columns)
    text = json.dumps({**head, "columns": listed}, ensure_ascii=False, separators=(",", ":")).encode()
    return gzip.compress(b"".join((struct.pack("<I", len(text)), text, *parts)), GZIP_LEVEL, mtime=0)


def _number(listed: list[list[object]], parts: list[bytes], name: str, values: NDArray[np.int64], delta: bool) -> None:
    values = np.clip(values, 0, MOST)
    wide = bool(values.max(initial=0) >= WIDE)
    stored = values
    if delta:
        step = np.diff(values, prepend=0)
        folded = (step << 1) ^ (step >> 63)
        delta = bool(folded.max(initial=0) <= MOST)
        stored = folded if delta else values
    planes = max(1, (int(stored.max(initial=0)).bit_length() + 7) // 8)
    octets = np.ascontiguousarray(stored, dtype="<i8").view(np.uint8).reshape(-1, 8)
    parts.append(np.ascontiguousarray(octets[:, :planes].T).tobytes())
    listed.append([name, "delta" if delta else "plain", len(values), planes, wide])
