"""Python objects in another process's memory: their types, attributes of instances, numbers and texts. Any of it may be stale or wrong:
unreadable data gives None."""

from __future__ import annotations

import struct

from aiflame.recorder.looks.memory import UnreadableError

from .python_frames import Python

_TYPE, _TYPE_NAME, _BASIC_SIZE, _TYPE_FLAGS, _DICT_OFFSET = 8, 24, 32, 168, 288
_DICT_KEYS, _DICT_VALUES = 32, 40
_INLINE_VALUES, _MANAGED_DICT = 1 << 2, 1 << 4
_MOST_KEYS = 256
_LONGEST_NAME = 128


class Objects:
    def __init__(self, python: Python) -> None:
        self._python, self._memory = python, python.memory
        self._new = python.version >= 0x030C
        self._type_names: dict[int, str] = {}

    def type_name(self, address: int) -> str:
        """The name of an object's type; empty if this is no object."""
        try:
            kind = self._memory.word(address + _TYPE)
            if kind not in self._type_names:
                data = self._memory.read_some(self._memory.word(kind + _TYPE_NAME), _LONGEST_NAME)
                name, end, _ = data.partition(b"\0")
                self._type_names[kind] = name.decode("ascii") if end else ""
        except (UnreadableError, UnicodeDecodeError):
            return ""
        return self._type_names[kind]

    def number(self, address: int) -> int | None:
        """A natural number of at most 90 bits."""
        try:
            data = self._memory.read(address + 16, 24)
        except UnreadableError:
            return None
        head, *digits = struct.unpack("<q4I", data)
        count = int(head >> 3 if self._new else head)
        if (self._new and head & 3) or not 0 <= count <= 3:
            return None
        return int(sum(digit << 30 * place for place, digit in enumerate(digits[:count])))

    def text(self, address: int) -> str | None:
        data = self._python.text(address)
        return data.decode("utf-8", "replace") if data is not None else None

    def attribute(self, instance: int, name: str) -> int | None:
        """The address of an attribute in the instance's own dictionary."""
        try:
            return self._attribute(instance, name)
        except (UnreadableError, struct.error):
            return None

    def _attribute(self, instance: int, name: str) -> int | None:
        word, version = self._memory.word, self._python.version
        kind = word(instance + _TYPE)
        cached_keys = word(kind + (880 if self._new else 872))
        values = table = 0
        if version == 0x030A:
            table = word(instance + word(kind + _DICT_OFFSET))
        elif version == 0x030B:
            values, table = word(instance - 32), word(instance - 24)
        elif version == 0x030C:
            both = word(instance - 24)
            values, table = (both + 1, 0) if both & 1 else (0, both)
        else:
            table = word(instance - 24)
            if word(kind + _TYPE_FLAGS) & _INLINE_VALUES:
                inline = instance + word(kind + _BASIC_SIZE)
                if self._memory.read(inline, 4)[3]:
                    values = inline + 8
        if values:
            return self._value(cached_keys, values, name)
        return self._value(word(table + _DICT_KEYS), self._split(table), name) if table else None

    def _split(self, table: int) -> int:
        """The values of a dictionary whose keys lie elsewhere; 0: they lie beside the keys."""
        values = self._memory.word(table + _DICT_VALUES)
        return values + 8 if values and self._python.version >= 0x030D else values

    def _value(self, keys: int, values: int, name: str) -> int | None:
        if self._python.version == 0x030A:
            size, count = struct.unpack("<q16xq", self._memory.read(keys + 8, 32))
            index_bytes = size * (1 if size <= 0xFF else 2 if size <= 0xFFFF else 4)
            first, entry, key_at = keys + 40 + index_bytes, 24, 8
        else:
            head = self._memory.read(keys + 8, 24)
            count = int.from_bytes(head[16:24], "little")
            first = keys + 32 + (1 << min(head[1], 32))
            entry, key_at = (24, 8) if head[2] == 0 else (16, 0)
        for place in range(min(count, _MOST_KEYS)):
            key, value = struct.unpack("<QQ", self._memory.read(first + entry * place + key_at, 16))
            if key and self.text(key) == name:
                return self._memory.word(values + 8 * place) if values else value
        return None
