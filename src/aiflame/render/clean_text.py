"""Makes foreign text safe for XML and HTML."""

from __future__ import annotations

import re

import polars as pl

HOSTILE = "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ufffe\\uffff]"
"""Control characters, which XML cannot contain, and direction marks, which could rearrange the text around a name."""
REPLACEMENT = "\ufffd"


def cleaned(column: pl.Series) -> pl.Series:
    """The column with text that is safe in XML and beside other text."""
    return column.str.replace_all(HOSTILE, REPLACEMENT)


def cleaned_text(text: str) -> str:
    return re.sub(HOSTILE, REPLACEMENT, text.encode("utf-8", "replace").decode())
