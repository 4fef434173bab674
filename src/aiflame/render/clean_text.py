"""Text of other people's making, made safe to stand in XML and HTML."""

from __future__ import annotations

import re

import polars as pl

HOSTILE = "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ufffe\\uffff]"
"""Control characters, which XML cannot hold, and direction marks, which would let a name rearrange the text around it."""
REPLACEMENT = "\ufffd"


def cleaned(column: pl.Series) -> pl.Series:
    """Text that is safe to put into XML and beside other text."""
    return column.str.replace_all(HOSTILE, REPLACEMENT)


def cleaned_text(text: str) -> str:
    return re.sub(HOSTILE, REPLACEMENT, text.encode("utf-8", "replace").decode())
