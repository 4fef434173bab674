"""Parses a demangled C++ name into components with template arguments. Tolerant: names may be cut, hostile or not C++ at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiflame.values import dataclass

LONGEST = 1 << 16

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|_GLOBAL__N_\w*::|_INTERNAL_\w+::|_NV_ANON_NAMESPACE::")
_TOKEN = re.compile(r"(?<!\w)operator ?(?:<<=?|>>=?|<=>|<=?|>=?|->\*?|\(\)|\[\])|->|::|[<>(){}\[\], ]")
_CLOSES = {">": "<", ")": "(", "}": "{", "]": "["}
_QUALIFIER = re.compile(r" (?:const|volatile|noexcept|&&?)(?![\w])| ?[*&]+(?:const)?| ?\[clone [^\]]*\]| \(\.kd\)$")


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    arguments: tuple[str, ...]
    """The arguments of its template, as text."""
    called: bool
    """True if it has parameters: it is a function."""


def path_of(text: str) -> list[Component]:
    """The parts of a name between `::`, without return type and qualifiers; empty if there are none."""
    text = _ANONYMOUS.sub("", text[:LONGEST]).strip()
    components: list[Component] = []
    name, arguments, called = "", "", False

    def close() -> None:
        nonlocal name, arguments, called
        if name:
            components.append(Component(name, tuple(split(arguments)), called))
        name, arguments, called = "", "", False

    for token, inside in _tokens(text):
        if token == "::":
            close()
        elif token == " ":
            if called or inside:  # `const` behind the parameters; a pointer
                continue
            components.clear()  # the earlier text was the return type
            name, arguments = "", ""
        elif token == "<":
            arguments = inside
        elif token == "(":
            called = bool(name)
        elif token == "{":
            name = "{" + inside + "}"
        else:
            name += token
    close()
    return components


def split(text: str) -> Iterator[str]:
    """Splits a text at the commas outside all brackets."""
    part = ""
    for token, inside in _tokens(text):
        if token == ",":
            yield part.strip()
            part = ""
        elif token in ("<", "(", "{", "["):
            part += token + inside + {"<": ">", "(": ")", "{": "}", "[": "]"}[token]
        elif token == " ":
            part += inside or " "
        else:
            part += token
    if part.strip():
        yield part.strip()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """The text outside all brackets, token by token; a bracket comes as its opening sign and its content."""
    ends = _ends(text)
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            following = _TOKEN.search(text, at)
            end = following.start() if following else len(text)
            yield text[at:end], ""
            at = end
        elif match[0] in ("<", "(", "{", "["):
            end = ends.get(at, len(text))
            yield match[0], text[at + 1 : end]
            at = end + 1
        elif match[0] == " ":
            qualifier = _QUALIFIER.match(text, at)
            yield " ", qualifier[0] if qualifier else ""
            at = qualifier.end() if qualifier else at + 1
        else:
            yield match[0], ""
            at = match.end()


def _ends(text: str) -> dict[int, int]:
    """Where each bracket is closed; a `>` inside parentheses compares, and closes nothing."""
    ends: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    counts = {"<": 0, "(": 0, "{": 0, "[": 0}
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in counts:
            opened.append((token, match.start()))
            counts[token] += 1
        elif (opener := _CLOSES.get(token)) and counts[opener] and (token != ">" or opened[-1][0] == "<"):
            while True:
                letter, start = opened.pop()
                counts[letter] -= 1
                ends[start] = match.start()
                if letter == opener:
                    break
    return ends
