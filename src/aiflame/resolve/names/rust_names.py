"""Demangles Rust's own mangling (`_R…`, RFC 2603) into names as rustc writes them."""

from __future__ import annotations

import string
from collections.abc import Callable

LONGEST = 1 << 16
"""A name that back references make longer than this stays mangled."""

_DIGITS = {letter: value for value, letter in enumerate(string.digits + string.ascii_lowercase + string.ascii_uppercase)}
_BASIC = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize", "l": "i32",
    "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64", "y": "u64", "z": "!",
}  # fmt: skip


def demangle_rust(symbol: str) -> str | None:
    """None if the symbol is not one of Rust's."""
    if not symbol.startswith("_R"):
        return None
    try:
        return _Reader(symbol[2:].partition(".")[0]).path(value=True)
    except (IndexError, KeyError, ValueError, RecursionError, OverflowError):
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._made = 0

    def path(self, value: bool) -> str:
        """`value`: generic arguments are written `::<T>`, as in expressions."""
        kind = self._take()
        if kind == "C":
            return self._identifier()[0]
        if kind in "MX":
            self._disambiguator()
            self.path(value=False)  # the module of the impl
            kind = "M" if kind == "M" else "Y"
            return self._qualified(kind)
        if kind == "Y":
            return self._qualified(kind)
        if kind == "N":
            return self._inner(value)
        if kind == "I":
            path = self.path(value)
            arguments = ", ".join(filter(None, self._until_end(self._argument)))
            return self._sized(f"{path}{'::' if value else ''}<{arguments}>")
        if kind == "B":
            return self._again(lambda: self.path(value))
        raise ValueError(kind)

    def _qualified(self, kind: str) -> str:
        own = self._type()
        return self._sized(f"<{own}>" if kind == "M" else f"<{own} as {self.path(value=False)}>")

    def _inner(self, value: bool) -> str:
        space = self._take()
        path = self.path(value)
        name, number = self._identifier()
        if space.isupper():
            special = {"C": "closure", "S": "shim"}.get(space, space)
            return self._sized(f"{path}::{{{special}{':' if name else ''}{name}#{number}}}")
        return self._sized(f"{path}::{name}" if name else path)

    def _identifier(self) -> tuple[str, int]:
        number = self._disambiguator()
        return self._plain_identifier(), number

    def _plain_identifier(self) -> str:
        punycode = self._has("u")
        start = self._at
        while self._text[self._at : self._at + 1].isdigit() and (self._at == start or self._text[start] != "0"):
            self._at += 1
        length = int(self._text[start : self._at])
        self._has("_")
        name = self._text[self._at : self._at + length]
        if len(name) != length:
            raise ValueError
        self._at += length
        if not punycode:
            return name
        head, _, tail = name.rpartition("_")
        return f"{head}-{tail}".removeprefix("-").encode().decode("punycode") if head else tail.encode().decode("punycode")

    def _disambiguator(self) -> int:
        return self._base62() + 1 if self._has("s") else 0

    def _base62(self) -> int:
        value = 0
        start = self._at
        while (letter := self._take()) != "_":
            value = value * 62 + _DIGITS[letter]
            if self._at - start > 16:
                raise ValueError
        return value + 1 if self._at - start > 1 else 0

    def _type(self) -> str:
        kind = self._take()
        if kind in _BASIC:
            return _BASIC[kind]
        if kind in "RQ":
            if self._has("L"):
                self._base62()
            return f"&{'mut ' if kind == 'Q' else ''}{self._type()}"
        if kind in "PO":
            return f"*{'const' if kind == 'P' else 'mut'} {self._type()}"
        if kind == "S":
            return f"[{self._type()}]"
        if kind == "A":
            return f"[{self._type()}; {self._constant()}]"
        if kind == "T":
            parts = self._until_end(self._type)
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if kind == "F":
            return self._function()
        if kind == "D":
            return self._dynamic()
        if kind == "B":
            return self._again(self._type)
        self._at -= 1
        return self.path(value=False)

    def _function(self) -> str:
        self._binder()
        text = "unsafe " if self._has("U") else ""
        if self._has("K"):
            text += f'extern "{"C" if self._has("C") else self._plain_identifier().replace("_", "-")}" '
        arguments = ", ".join(self._until_end(self._type))
        result = self._type()
        return self._sized(f"{text}fn({arguments}){'' if result == '()' else f' -> {result}'}")

    def _dynamic(self) -> str:
        self._binder()
        traits = self._until_end(self._trait)
        if self._take() != "L":
            raise ValueError
        self._base62()
        return self._sized(f"dyn {' + '.join(traits)}")

    def _trait(self) -> str:
        path = self.path(value=False)
        bound = []
        while self._has("p"):
            bound.append(f"{self._plain_identifier()} = {self._type()}")
        if not bound:
            return path
        return f"{path[:-1]}, {', '.join(bound)}>" if path.endswith(">") else f"{path}<{', '.join(bound)}>"

    def _argument(self) -> str:
        if self._has("L"):
            self._base62()
            return ""
        return self._constant() if self._has("K") else self._type()

    def _constant(self) -> str:
        if self._has("p"):
            return "_"
        if self._has("B"):
            return self._again(self._constant)
        kind = self._type()
        sign = "-" if self._has("n") else ""
        end = self._text.index("_", self._at)
        value = int(self._text[self._at : end] or "0", 16)
        self._at = end + 1
        if kind == "bool":
            return "true" if value else "false"
        return repr(chr(value)) if kind == "char" else f"{sign}{value}"

    def _binder(self) -> None:
        if self._has("G"):
            self._base62()

    def _again(self, read: Callable[[], str]) -> str:
        """Reads the text at an earlier place again."""
        start = self._at - 1
        place = self._base62()
        if place >= start:
            raise ValueError
        behind, self._at = self._at, place
        text = self._sized(read())
        self._at = behind
        return text

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        parts = []
        while not self._has("E"):
            parts.append(self._sized(read()))
        return parts

    def _sized(self, text: str) -> str:
        self._made += len(text)
        if len(text) > LONGEST or self._made > 16 * LONGEST:
            raise OverflowError
        return text

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _has(self, letter: str) -> bool:
        there = self._text.startswith(letter, self._at)
        self._at += there
        return there
