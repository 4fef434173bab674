"""Sentences in which names from profiles are marked, so that each output format can escape them."""

from __future__ import annotations

from collections.abc import Iterable

Sentence = tuple[str, ...]
"""Pieces of text: those of type Name come from a profile, the others from us."""


class Name(str):
    """A text from a profile, which a stranger may have written."""

    __slots__ = ()


def plain(sentence: Iterable[str]) -> str:
    return "".join(sentence)


def listed(names: Iterable[str], last: str = " and ") -> Sentence:
    """`a, b and c`, in which each item is a Name."""
    items = [Name(name) for name in names]
    words: list[str] = []
    for number, item in enumerate(items):
        if number:
            words.append(last if number == len(items) - 1 else ", ")
        words.append(item)
    return tuple(words)
