"""A table of texts, each written once and meant by its row."""

from __future__ import annotations

from collections.abc import Iterable


class Strings:
    def __init__(self) -> None:
        self._rows: dict[str, int] = {"": 0}

    def row(self, text: str) -> int:
        return self._rows.setdefault(text, len(self._rows))

    def all(self) -> Iterable[str]:
        """In the order of their rows, the empty text first."""
        return self._rows
