"""The facts that events have: Perfetto's debug annotations, by their names."""

from __future__ import annotations

from aiflame.exchange.readers.perfetto.contents import Contents
from aiflame.exchange.readers.perfetto.interned import KEYS, TEXTS
from aiflame.exchange.readers.protobuf import DamagedError, double, fields, message, signed, text, unsigned

Fact = str | int | float | list[str]
_KEY_IID, _KEY, _ARRAY = 1, 10, 12
_BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _TEXT_IID = 2, 3, 4, 5, 6, 7, 17


class Facts:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._read: dict[tuple[int, bytes], dict[str, Fact]] = {}

    def of(self, event: int) -> dict[str, Fact]:
        """The facts of an event; of a list the texts."""
        scope, messages = self._contents.events.annotations_of(event)
        facts: dict[str, Fact] = {}
        for one in messages:
            own = self._read.get((scope, one))
            if own is None:
                own = {}
                try:
                    self._add(own, scope, one)
                except DamagedError:
                    self._contents.damaged += 1
                self._read[scope, one] = own
            facts.update(own)
        return facts

    def text(self, event: int, name: str) -> str:
        value = self.of(event).get(name, "")
        return value if isinstance(value, str) else "" if isinstance(value, list) else str(value)

    def number(self, event: int, name: str) -> int | None:
        value = self.of(event).get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            return int(value)
        return value if isinstance(value, int) and abs(value) < 1 << 62 else None

    def _add(self, own: dict[str, Fact], scope: int, data: bytes) -> None:
        name, value = "", None
        several: list[str] = []
        for number, given in fields(data):
            if number == _KEY_IID:
                name = self._contents.interned.text(KEYS, scope, unsigned(given))
            elif number == _KEY:
                name = text(given)
            elif number == _ARRAY:
                values = (self._value(scope, *inner) for inner in fields(message(given)))
                several += (str(one) for one in values if one is not None)
            elif (one := self._value(scope, number, given)) is not None:
                value = one
        if name and (several or value is not None):
            own[name] = several or value  # type: ignore[assignment]

    def _value(self, scope: int, number: int, given: int | memoryview) -> str | int | float | None:
        if number in (_UINT, _BOOL, _POINTER):
            return unsigned(given)
        if number == _INT:
            return signed(given)
        if number == _DOUBLE:
            return double(given)
        if number == _TEXT:
            return text(given)
        if number == _TEXT_IID:
            return self._contents.interned.text(TEXTS, scope, unsigned(given))
        return None
