"""The one exception for people."""

from __future__ import annotations

import re

MOVES_THE_CURSOR = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters (ESC among them), characters that change the direction of writing, and surrogates, which no encoding has."""


class AiflameError(Exception):
    """A fault that the user can repair. The message names the fault and the remedy, in one line."""

    def __str__(self) -> str:
        return harmless(super().__str__())


def harmless(text: str) -> str:
    """One line that is safe on a terminal: names and paths in a text may come from a stranger."""
    return re.sub(MOVES_THE_CURSOR, "?", text)
