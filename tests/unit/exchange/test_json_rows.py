"""Events of a JSON document as columns: the conversion of each value, and the forms of documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiflame.errors import AiflameError
from aiflame.exchange.readers.json_rows import NONE, JsonRows, Key, Kind, Read

KEYS = (
    Key("v", Kind.INT, name="int"),
    Key("v", Kind.DECIMAL, 3, "milli"),
    Key("v", Kind.TEXT, name="text"),
    Key("v", Kind.RAW, name="raw"),
)


def read(document: bytes, *keys: Key, block: int = 1 << 20, **options: Any) -> tuple[dict[str, list[Any]], Read]:
    """Columns with texts instead of their numbers, None for null."""
    rows = JsonRows(keys, **options)
    batches = [rows.feed(document[at : at + block]) for at in range(0, len(document), block)]
    batches.append(rows.finish())
    texts = rows.texts().to_list()
    columns: dict[str, list[Any]] = {}
    for key in keys:
        name = key.name or key.path
        values = [value for batch in batches for value in batch[name].tolist()]
        numbers = key.kind in (Kind.INT, Kind.DECIMAL)
        columns[name] = [(None if value == NONE else value) if numbers else texts[value] for value in values]
    return columns, rows.summary()


def of_value(text: str) -> dict[str, Any]:
    """One value under a key, as each kind of column has it."""
    columns, facts = read(b'[{"v": ' + text.encode() + b"}]", *KEYS)
    assert (facts.damaged_places, facts.damaged_bytes, facts.cut) == (0, 0, False)
    return {name: values[0] if name not in facts.unfit else "unfit" for name, values in columns.items()}


@pytest.mark.parametrize(
    ("text", "integer", "milli"),
    [
        ("0", 0, 0),
        ("-0", 0, 0),
        ("12", 12, 12_000),
        ("-12.0", -12, -12_000),
        ("1732650000123456.789", "unfit", 1732650000123456789),
        ("9007199254740993", 9007199254740993, 9007199254740993_000),
        ("9223372036854775807", 2**63 - 1, "unfit"),
        ("-9223372036854775807", 1 - 2**63, "unfit"),
        ("9223372036854775808", "unfit", "unfit"),
        ("9223372036854775.807", "unfit", 2**63 - 1),
        ("9223372036854775.8075", "unfit", "unfit"),
        ("99999999999999999999", "unfit", "unfit"),
        ("0.0005", "unfit", 0),
        ("0.0015", "unfit", 2),
        ("0.0025", "unfit", 2),
        ("0.00250000000000000000000000000001", "unfit", 3),
        ("-0.0015", "unfit", -2),
        ("0.00049", "unfit", 0),
        ("1.5e3", 1500, 1_500_000),
        ("15E-1", "unfit", 1500),
        ("1e400", "unfit", "unfit"),
        ("1e-400", "unfit", 0),
        ("0e400", 0, 0),
        ("1e-99999999999999999999999", "unfit", 0),
        ("120e-1", 12, 12_000),
        ('"12"', 12, 12_000),
        ('"-1.25"', "unfit", -1250),
        ('"\\u0031"', 1, 1000),
        ('"007"', 7, 7000),
        ('""', "unfit", "unfit"),
        ('" 1"', "unfit", "unfit"),
        ('"0x1f"', "unfit", "unfit"),
        ('"1."', "unfit", "unfit"),
        ('".5"', "unfit", "unfit"),
        ("NaN", "unfit", "unfit"),
        ("-Infinity", "unfit", "unfit"),
        ("true", "unfit", "unfit"),
        ("[1]", "unfit", "unfit"),
        ("null", None, None),
    ],
)
def test_a_number_is_exact_or_does_not_fit(text: str, integer: object, milli: object) -> None:
    values = of_value(text)
    assert (values["int"], values["milli"]) == (integer, milli)


@pytest.mark.parametrize(
    ("text", "decoded", "raw"),
    [
        ('""', "", '""'),
        ('"a b"', "a b", '"a b"'),
        ('"é\\n\\"\\/\\\\\\u00e9"', 'é\n"/\\é', '"é\\n\\"\\/\\\\\\u00e9"'),
        ('"\\ud83d\\ude00"', "😀", '"\\ud83d\\ude00"'),
        ('"\\ud83d!"', "\ufffd!", '"\\ud83d!"'),
        ('"\\ude00\\ud83d\\u0041"', "\ufffd\ufffdA", '"\\ude00\\ud83d\\u0041"'),
        ('"C:\\x \\u12"', "C:\\x \\u12", '"C:\\x \\u12"'),
        ('"a\n\tb\x00"', "a\n\tb\x00", '"a\n\tb\x00"'),
        ("-1.50e3", "-1.50e3", "-1.50e3"),
        ("true", "true", "true"),
        ("false", "false", "false"),
        ("NaN", "NaN", "NaN"),
        ("[1, [], {}]", "unfit", "[1, [], {}]"),
        ('{"b" : {"c":"ö"}}', "unfit", '{"b" : {"c":"ö"}}'),
        ("null", None, None),
    ],
)
def test_a_text_is_decoded_and_a_raw_value_stays_as_it_stands(text: str, decoded: object, raw: object) -> None:
    values = of_value(text)
    assert (values["text"], values["raw"]) == (decoded, raw)


@pytest.mark.parametrize(
    "wrong", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\x80\xe2\x82", b"\xe2\x28\xa1"]
)
def test_bytes_that_are_no_utf8_are_replaced_as_python_does(wrong: bytes) -> None:
    columns, _ = read(b'[{"v":"<' + wrong + b'>"}]', *KEYS[2:])
    as_python = f"<{wrong.decode('utf-8', 'replace')}>"
    assert columns == {"text": [as_python], "raw": [f'"{as_python}"']}


EVENT = b'{"ts": 1, "args": {"External id": 2}}'
TWO = (Key("ts", Kind.INT), Key("args.External id", Kind.INT))


@pytest.mark.parametrize(
    "document",
    [
        b"[" + EVENT + b"," + EVENT + b"]",
        b"[" + EVENT + b",\n" + EVENT + b",\n]\n",
        b"[" + EVENT + b",\n" + EVENT + b",\n",
        b"[" + EVENT + b",\n" + EVENT,
        b"\xef\xbb\xbf [ " + EVENT + b" , " + EVENT + b" ] ",
        b'{"traceEvents": [' + EVENT + b"," + EVENT + b"]}",
        b'{"a": {"traceEvents": [{"ts": 9}]}, "trace\\u0045vents":[' + EVENT + b"," + EVENT + b',], "b": [],}',
        b'{"traceEvents": [' + EVENT + b'], "traceEvents": [' + EVENT + b"]}",
    ],
)
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_a_document_is_an_object_with_the_array_or_the_array_which_may_lack_its_end(document: bytes, block: int) -> None:
    columns, facts = read(document, *TWO, block=block)
    assert columns == {"ts": [1, 1], "args.External id": [2, 2]}
    assert (facts.found_array, facts.damaged_places, facts.damaged_bytes, facts.cut) == (True, 0, 0, False)


@pytest.mark.parametrize("document", [b"", b"{}", b'{"events": [{"ts": 1}]}', b'  {"a": 1}  '])
def test_a_document_without_the_array_has_no_rows(document: bytes) -> None:
    columns, facts = read(document, *TWO)
    assert (columns["ts"], facts.found_array, facts.damaged_places) == ([], False, 0)


def test_the_arrays_key_can_be_another() -> None:
    assert read(b'{"traceEvents": [{"ts": 1}], "rows": [{"ts": 2}]}', TWO[0], array="rows")[0] == {"ts": [2]}


def test_rows_come_with_the_block_that_completes_them() -> None:
    rows = JsonRows([TWO[0]])
    assert [rows.feed(block).rows for block in (b'[{"ts": 1}, {"t', b's": 2', b"}, {}", b"")] == [1, 0, 2, 0]
    assert rows.finish().rows == 0


def test_other_members_are_there_as_they_stand() -> None:
    document = b'{"schemaVersion": 1, "device\\nProperties": [ {"id": 0} ], "traceEvents": [], "traceName": "a\\"b"}'
    _, facts = read(document, *TWO, block=5)
    assert facts.members == {"schemaVersion": "1", "device\nProperties": '[ {"id": 0} ]', "traceName": '"a\\"b"'}


@pytest.mark.parametrize("block", [1 << 20, 100 << 20])
def test_a_large_member_is_named_and_passed_over(block: int) -> None:
    large = b"[" + b'"]}\\"", {"a": [1]},' * 1_000_000 + b"0]"
    document = b'{"stacks": ' + large + b', "a": 1, "traceEvents": [{"ts": 1}], "text": "' + b"x" * (17 << 20) + b'", "b": 2}'
    columns, facts = read(document, *TWO, block=block)
    assert columns["ts"] == [1]
    assert (facts.members, facts.large_members) == ({"a": "1", "b": "2"}, ("stacks", "text"))
    assert (facts.damaged_places, facts.cut) == (0, False)


def test_keys_that_were_not_asked_for_are_counted_by_their_path() -> None:
    events = [
        {"ts": 1, "cat": "a", "args": {"External id": 1, "x": {"y": {"z": 1}}}},
        {"ts": 2, "args": {"x": 1, "q": []}, "other": {"x": {"deep": 1}, "ts": 1}},
        {"args": "text", "External id": 1},
    ]
    _, facts = read(json.dumps(events).encode(), *TWO)
    counted = {"cat": 1, "args.x": 2, "args.q": 1, "other": 1, "other.x": 1, "other.ts": 1, "args": 1, "External id": 1}
    assert facts.unused == counted


def test_many_distinct_keys_are_counted_as_one() -> None:
    events = [{"ts": 1, f"key {number}": 0} for number in range(30_000)]
    columns, facts = read(json.dumps(events).encode(), *TWO)
    assert (columns["ts"], sum(facts.unused.values())) == ([1] * 30_000, 30_000)
    assert facts.unused["[other keys]"] > 9_000


def test_a_key_that_is_called_as_the_others_are_is_none_of_them() -> None:
    events = [{f"key {number}": 0, "[other keys]": number} for number in range(25_000)]
    assert read(json.dumps(events).encode(), Key("[other keys]", Kind.INT))[0] == {"[other keys]": list(range(25_000))}


def test_the_last_of_two_equal_keys_counts() -> None:
    assert read(b'[{"ts": 1, "ts": 2}, {"ts": 1, "ts": null}]', TWO[0])[0] == {"ts": [2, None]}


def test_texts_that_memory_has_no_room_for_become_one() -> None:
    events = [{"v": f"text {number:03}"} for number in (*range(100), 5, 99)]
    columns, facts = read(json.dumps(events).encode(), KEYS[2], most_text_bytes=80)
    assert columns["text"] == [f"text {number:03}" if number < 10 else "[too many texts]" for number in (*range(100), 5, 99)]
    assert facts.refused_texts == 91


def test_a_text_has_one_number() -> None:
    rows = JsonRows([KEYS[2]])
    batch = rows.feed(b'[{"v": "a"}, {"v": "\\u0061"}, {"v": "b"}, {"v": "a"}, {}]')
    assert batch["text"].tolist() == [1, 1, 2, 1, 0]
    assert [rows.text(number) for number in (0, 1, 2)] == [None, "a", "b"]
    with pytest.raises(IndexError):
        rows.text(3)


def test_depth_is_bounded() -> None:
    deep = b'{"ts": 1, "a": %s}, {"ts": 2, "a": %s}'
    within, beyond = (b"[" * levels + b"]" * levels for levels in (63, 64))
    columns, facts = read(b"[" + deep % (within, beyond) + b', {"ts": 3}]', TWO[0])
    assert (columns["ts"], facts.damaged_places) == ([1, 3], 1)


def test_an_event_that_is_too_long_is_an_error_in_a_sentence() -> None:
    rows = JsonRows([TWO[0]], source="a.json")
    rows.feed(b'[{"ts": 1}, {"ts": 2, "x": "')
    with pytest.raises(AiflameError, match=r"a\.json has an event that is longer than 64 MB, at byte 12: "):
        for _ in range(5):
            rows.feed(b"x" * (16 << 20))
    with pytest.raises(AiflameError):
        rows.finish()


def test_a_closed_document_says_so() -> None:
    rows = JsonRows([TWO[0]])
    rows.close()
    rows.close()
    with pytest.raises(ValueError, match="closed"):
        rows.feed(b"[")


def test_names_of_columns_are_distinct() -> None:
    with pytest.raises(ValueError):
        JsonRows([Key("a", Kind.INT), Key("a", Kind.TEXT)])
