"""Random documents, cut into blocks at random, are read as `json.loads` and `Decimal` read them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aiflame.exchange.readers.json_rows import NONE, JsonRows, Key, Kind

NUMBER = r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?"
NAMES = ("ts", "name", "args", "id", "other", 'q"\\', "ключ", "")
INSIDE = ("id", "x", "External id")
KEYS = (
    Key("ts", Kind.DECIMAL, 3),
    Key("ts", Kind.TEXT, name="ts as text"),
    Key("id", Kind.INT),
    Key("name", Kind.TEXT),
    Key("args.External id", Kind.INT),
    Key("args.x", Kind.RAW),
    Key("ключ.id", Kind.DECIMAL, 0),
)
UNFIT = object()
SPACES = st.sampled_from(["", " ", "\n", "\r\n\t  "])


@dataclass(frozen=True)
class Number:
    text: str


@st.composite
def objects(draw: st.DrawFn, names: tuple[str, ...], values: st.SearchStrategy[str]) -> str:
    members = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    parts = []
    for name in members:
        quoted = json.dumps(name, ensure_ascii=draw(st.booleans()))
        parts.append("".join((draw(SPACES), quoted, draw(SPACES), ":", draw(SPACES), draw(values), draw(SPACES))))
    return "{" + ",".join(parts) + draw(SPACES if not parts else st.just("")) + "}"


PLAIN = st.one_of(
    st.from_regex(NUMBER, fullmatch=True),
    st.builds(json.dumps, st.text(max_size=40), ensure_ascii=st.booleans()),
    st.builds(json.dumps, st.from_regex(NUMBER, fullmatch=True)),
    st.sampled_from(["true", "false", "null"]),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"), objects(INSIDE, inner)),
    max_leaves=6,
)
EVENTS = st.lists(objects(NAMES, st.one_of(PLAIN, VALUES, objects(INSIDE, VALUES))), max_size=8)


def number(value: Any, digits: int, rounded: bool) -> object:
    text = value.text if isinstance(value, Number) else value
    if not isinstance(text, str) or not re.fullmatch(NUMBER, text):
        return UNFIT
    with localcontext() as context:
        context.prec = 200
        exact = Decimal(text).scaleb(digits)
        whole = exact.quantize(Decimal(1))
    fits = abs(whole) < 2**63 and (rounded or whole == exact)
    return int(whole) if fits else UNFIT


def expected(key: Key, event: dict[str, Any]) -> object:
    value: Any = event
    for part in key.path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return None
    if key.kind in (Kind.INT, Kind.DECIMAL):
        return number(value, key.digits, rounded=key.kind is Kind.DECIMAL)
    if key.kind is Kind.RAW:
        return value
    if isinstance(value, dict | list):
        return UNFIT
    return value.text if isinstance(value, Number) else value if isinstance(value, str) else str(value).lower()


def loads(text: str) -> Any:
    return json.loads(text, parse_float=Number, parse_int=Number)


def found(document: bytes, cuts: list[int]) -> tuple[list[dict[str, Any]], JsonRows]:
    rows = JsonRows(KEYS)
    places = [0, *sorted(cut % (len(document) + 1) for cut in cuts), len(document)]
    batches = [rows.feed(document[begin:end]) for begin, end in pairwise(places)]
    batches.append(rows.finish())
    texts = rows.texts().to_list()
    events: list[dict[str, Any]] = []
    for batch in batches:
        for row in range(batch.rows):
            event: dict[str, Any] = {}
            for key in KEYS:
                value = batch[key.name or key.path][row].item()
                if key.kind in (Kind.INT, Kind.DECIMAL):
                    event[key.name or key.path] = None if value == NONE else value
                else:
                    text = texts[value]
                    event[key.name or key.path] = loads(text) if text is not None and key.kind is Kind.RAW else text
            events.append(event)
    return events, rows


def unused(events: list[dict[str, Any]]) -> Counter[str]:
    wanted = {key.path for key in KEYS}
    counted: Counter[str] = Counter()
    for event in events:
        for name, value in event.items():
            inside = isinstance(value, dict)
            holds = inside and any(path.startswith(f"{name}.") for path in wanted)
            counted.update([name] if name not in wanted and not holds else [])
            counted.update(f"{name}.{second}" for second in (value if inside else ()) if f"{name}.{second}" not in wanted)
    return counted


@settings(max_examples=100)
@given(EVENTS, st.lists(st.integers(0, 10**6), max_size=12), SPACES, st.booleans())
def test_every_value_is_as_json_and_decimal_read_it(texts: list[str], cuts: list[int], space: str, bare: bool) -> None:
    array = f"[{space}{f'{space},'.join(texts)}{space}]"
    document = array if bare else f'{{"a":{space}[1, {{"b": "]"}}],{space}"traceEvents"{space}:{array},"z":"\\""{space}}}'
    events, rows = found(document.encode(), cuts)
    wanted = [{key.name or key.path: expected(key, event) for key in KEYS} for event in loads(array)]
    assert events == [{name: None if value is UNFIT else value for name, value in event.items()} for event in wanted]
    facts = rows.summary()
    assert (facts.damaged_places, facts.damaged_bytes, facts.cut, facts.found_array) == (0, 0, False, True)
    assert facts.unfit == Counter(name for event in wanted for name, value in event.items() if value is UNFIT)
    assert facts.unused == unused(loads(array))
