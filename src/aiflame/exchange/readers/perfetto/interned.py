"""Texts and other values that packets of a sequence refer to by number, until its state is cleared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.perfetto.many_messages import split
from aiflame.exchange.readers.perfetto.packets import Packets

INTERNED = 12
CATEGORIES, NAMES, KEYS, FUNCTIONS, FRAMES, CALLSTACKS = 1, 2, 3, 5, 6, 7
BUILD_IDS, PATHS, SOURCES, MAPPINGS = 16, 17, 18, 19
CONTEXTS, SPECIFICATIONS, TEXTS = 23, 24, 29
GPU_COUNTERS, TASKS, EXECUTIONS, COUNTERS = 47, 48, 49, 50
KERNELS, ARGUMENTS = 1000, 1001
WITH_TEXT = {CATEGORIES, NAMES, KEYS, FUNCTIONS, BUILD_IDS, PATHS, SOURCES, TEXTS, ARGUMENTS}
"""Fields whose messages have the number first and then a text."""
WHOLE = {FRAMES, CALLSTACKS, MAPPINGS, CONTEXTS, SPECIFICATIONS, GPU_COUNTERS, TASKS, EXECUTIONS, COUNTERS, KERNELS}
"""Fields whose messages are kept as they are."""
_IID, _TEXT = 1, 2


class Texts:
    """Distinct texts, by number; 0 is the empty one."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}
        self.all: list[str] = [""]

    def number(self, text: bytes) -> int:
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text.decode("utf-8", "replace"))
        return number


class Interned:
    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.unused: Counter[int] = Counter()
        self.damaged = 0
        self._texts: dict[int, tuple[list[int], list[int], list[int]]] = {field: ([], [], []) for field in WITH_TEXT}
        """By field: scope, number and text."""
        self._whole: dict[int, dict[tuple[int, int], bytes]] = {field: {} for field in WHOLE}
        self._lookups: dict[int, dict[tuple[int, int], int]] = {}

    def add(self, packets: Packets) -> None:
        packet, begin, end = packets.messages(INTERNED)
        if not len(packet):
            return
        inner = split(packets.batch, begin, end)
        self.damaged += inner.damaged
        entries = inner.end >= 0
        scope = packets.scope[packet[inner.message[entries]]]
        number, begin, end = inner.number[entries], inner.value[entries].astype(np.int64), inner.end[entries]
        entry = split(packets.batch, begin, end)
        self.damaged += entry.damaged
        iid = entry.last(_IID, len(begin))
        text_begin, text_end = np.zeros(len(begin), dtype=np.int64), np.zeros(len(begin), dtype=np.int64)
        rows = entry.rows(_TEXT, bytes=True)
        text_begin[entry.message[rows]], text_end[entry.message[rows]] = entry.value[rows].astype(np.int64), entry.end[rows]
        data = packets.batch.bytes
        columns = (column.tolist() for column in (scope, number, iid, begin, end, text_begin, text_end))
        for of, field, key, first, last, text_first, text_last in zip(*columns, strict=True):
            if field in WITH_TEXT:
                scopes, keys, texts = self._texts[field]
                scopes.append(of)
                keys.append(key)
                texts.append(self.texts.number(data[text_first:text_last]))
            elif field in WHOLE:
                self._whole[field][of, key] = data[first:last]
            else:
                self.unused[field] += 1

    def numbers(self, field: int, scope: Whole, iid: Whole) -> Whole:
        """The text that each number stands for, as a number of `texts`; -1 for a number that its scope does not know. Where a scope has one
        number twice, the last counts."""
        scopes, keys, texts = (np.array(column, dtype=np.int64) for column in self._texts[field])
        result = np.full(len(iid), -1, dtype=np.int64)
        if not len(scopes) or not len(iid):
            return result
        order = np.lexsort((np.arange(len(keys)), keys, scopes))
        scopes, keys, texts = scopes[order], keys[order], texts[order]
        last = np.append((scopes[1:] != scopes[:-1]) | (keys[1:] != keys[:-1]), True)
        scopes, keys, texts = scopes[last], keys[last], texts[last]
        own_scopes, of = np.unique(scopes, return_inverse=True)
        own_keys, key = np.unique(keys, return_inverse=True)
        place_scope, place_key = np.searchsorted(own_scopes, scope), np.searchsorted(own_keys, iid)
        there = (place_scope < len(own_scopes)) & (place_key < len(own_keys))
        there &= own_scopes[np.minimum(place_scope, len(own_scopes) - 1)] == scope
        there &= own_keys[np.minimum(place_key, len(own_keys) - 1)] == iid
        have, wanted = of * len(own_keys) + key, place_scope * len(own_keys) + place_key
        place = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
        there &= have[place] == wanted
        result[there] = texts[place[there]]
        return result

    def text(self, field: int, scope: int, iid: int) -> str:
        """Empty where the scope does not know the number."""
        if field not in self._lookups:
            scopes, keys, texts = self._texts[field]
            self._lookups[field] = {(of, key): text for of, key, text in zip(scopes, keys, texts, strict=True)}
        return self.texts.all[self._lookups[field].get((scope, iid), 0)]

    def whole(self, field: int) -> Mapping[tuple[int, int], bytes]:
        """Messages by scope and number."""
        return self._whole[field]
