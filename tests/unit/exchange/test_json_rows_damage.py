"""All whole events of a damaged document are read, wherever the damage is, and nothing crashes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from aiflame.exchange.readers.json_rows import JsonRows, Key, Kind, Read

KEYS = (Key("ts", Kind.INT), Key("name", Kind.TEXT), Key("args.External id", Kind.INT))
BYTES = b'{}[],:"\\ x0-\n\x00\xff'


@dataclass(frozen=True)
class Document:
    text: bytes
    events: tuple[tuple[int, int], ...]
    """Where each begins and ends; its `ts` is its place in this list plus 100."""
    fragile: frozenset[int] = frozenset()
    """Places of the array's key, or of the only bracket before the events: without them, the document is another."""


def event(number: int, indent: int | None) -> str:
    args = {"External id": number, "Input Dims": [[1, 2], []], "of": [{"a": 1}, {"b": "},{"}]}
    return json.dumps({"ph": "X", "name": f'at {number} "{{', "ts": 100 + number, "args": args}, indent=indent)


def document(indent: int | None, space: str, head: str, tail: str) -> Document:
    text, places = head, []
    for number in range(4):
        text += ("," if number else "") + space
        places.append((len(text), len(text) + len(event(number, indent))))
        text += event(number, indent)
    text += space + tail
    key = text.find("traceEvents")
    return Document(text.encode(), tuple(places), frozenset(range(key, key + 11) if key >= 0 else (0,)))


HEAD = '{"schemaVersion": 1, "device": [{"id": 0, "memory": 5}], "traceEvents": ['
DOCUMENTS = {
    "in lines": document(1, "\n  ", HEAD, '], "traceName": "a"}'),
    "in one line": document(None, "", HEAD, '], "traceName": "a"}'),
    "key first": document(None, " ", '{"traceEvents":[', "]}"),
    "bare": document(None, "\n", "[", "]"),
}


def read(text: bytes, block: int = 1 << 20) -> tuple[list[tuple[int, ...]], Read]:
    rows = JsonRows(KEYS)
    batches = [rows.feed(text[at : at + block]) for at in range(0, len(text), block)]
    batches.append(rows.finish())
    return [row for batch in batches for row in zip(*(column.tolist() for column in batch.columns.values()), strict=True)], rows.summary()


def lost(whole: Document, text: bytes, begin: int, end: int) -> list[int]:
    """Numbers of the events without a byte between two places that are nevertheless not read, in their order and with all values."""
    rows, _ = read(text)
    read_ones = [external for ts, name, external in rows if ts == 100 + external and name]
    kept = [number for number, (first, last) in enumerate(whole.events) if last <= begin or first >= end]
    assert [number for number in read_ones if number in kept] == [number for number in kept if number in read_ones]
    return [number for number in kept if number not in read_ones]


def flips(whole: Document) -> Iterator[tuple[int, bytes]]:
    for place in sorted({*range(len(whole.text))} - whole.fragile):
        for byte in BYTES:
            if whole.text[place] != byte:
                yield place, whole.text[:place] + bytes([byte]) + whole.text[place + 1 :]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_whole_document_is_read(name: str) -> None:
    rows, facts = read(DOCUMENTS[name].text)
    assert [row[0] for row in rows] == [100, 101, 102, 103]
    assert (facts.damaged_places, facts.damaged_bytes, facts.cut) == (0, 0, False)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_changed_byte_costs_the_event_that_has_it_alone(name: str) -> None:
    whole = DOCUMENTS[name]
    assert [(place, text[place], costs) for place, text in flips(whole) if (costs := lost(whole, text, place, place + 1))] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_missing_byte_costs_the_event_that_had_it_alone(name: str) -> None:
    whole = DOCUMENTS[name]
    places = sorted({*range(len(whole.text))} - whole.fragile)
    cut = {place: lost(whole, whole.text[:place] + whole.text[place + 1 :], place, place + 1) for place in places}
    assert {place: events for place, events in cut.items() if events} == {}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_cut_document_has_the_events_before_the_cut(name: str) -> None:
    whole = DOCUMENTS[name]
    for length in range(whole.events[0][0], len(whole.text)):
        assert lost(whole, whole.text[:length], length, len(whole.text)) == []
        _, facts = read(whole.text[:length])
        within = any(first < length < last for first, last in whole.events)
        assert facts.cut == (within or (name != "bare"))
        assert (facts.damaged_places > 0) == facts.cut


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hole_costs_the_events_that_it_touches(name: str) -> None:
    """A hole that ends at a brace behind which an event begins may leave that event inside another's list."""
    whole, chance = DOCUMENTS[name], random.Random(1)
    for _ in range(400):
        begin = chance.randrange(whole.events[0][0], len(whole.text))
        end = min(begin + chance.randrange(1, 300), len(whole.text))
        for filling in (b"", b"\x00" * (end - begin)):
            assert lost(whole, whole.text[:begin] + filling + whole.text[end:], begin, end + 1) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_of_one_byte_give_the_same_rows(name: str) -> None:
    chance = random.Random(2)
    changed = [text for _, text in flips(DOCUMENTS[name])]
    for text in chance.sample(changed, 60):
        assert read(text, 1) == read(text)


def test_bytes_and_places_of_damage_are_counted() -> None:
    rows, facts = read(b'[{"ts": 1}, {"ts": oops}, {"ts": 2}, ###, {"ts": 3} {"ts": 4}, {"ts": 5')
    assert [row[0] for row in rows] == [1, 2, 3, 4]
    lost = (b'{"ts": oops}, ', b"###, ", b"", b'{"ts": 5')
    assert (facts.damaged_places, facts.damaged_bytes, facts.cut) == (4, sum(map(len, lost)), True)


def test_objects_within_a_damaged_event_are_no_events() -> None:
    rows, _ = read(b'[{"ts": oops, "args": {"ts": 7}, "list": [{"a": 1}, {"b": 2}]}, {"ts": 2}]')
    assert [row[0] for row in rows] == [2]


@pytest.mark.parametrize("seed", range(4))
def test_garbage_is_no_document(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        garbage = bytes(chance.choices(b'{}[],:"\\ tfn0-e\n\x00\xff', k=chance.randrange(200)))
        cuts = sorted(chance.randrange(len(garbage) + 1) for _ in range(3))
        rows = JsonRows(KEYS)
        for begin, end in pairwise([0, *cuts, len(garbage)]):
            rows.feed(garbage[begin:end])
        rows.finish()
        assert rows.summary().damaged_bytes <= len(garbage)
