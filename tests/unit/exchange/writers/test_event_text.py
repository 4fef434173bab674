"""The text of events, of all kinds of pieces and in parts of any size."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from aiflame.exchange.writers import event_text
from aiflame.exchange.writers.event_text import Piece, at_least, members, microseconds, number, text, written
from aiflame.exchange.writers.json_events import Choice, EventFile

NAMES = ["plain", 'quo"ted', "", "Größe 💥", "x" * 5000]
ROWS = [(row, (-1) ** row * row * 1_234_567, row % len(NAMES), row % 4 - 1) for row in range(3000)]


def table() -> tuple[pl.DataFrame, tuple[Piece, ...]]:
    rows = pl.DataFrame(ROWS, schema=["id", "time", "which", "step"], orient="row")
    name = Choice("name", [json.dumps(one, ensure_ascii=False) for one in NAMES], rows["which"].to_numpy())
    said = members(at_least("step", 0, text(',"step":'), number("step")), at_least("id", 2990, text(',"late":true')))
    return rows.with_columns(name.numbers), (
        *(text('{"id":'), number("id"), text(',"name":'), name.piece, text(',"ts":'), microseconds("time"), said, text("}")),
    )


def right() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for id, time, which, step in ROWS:
        events.append({"id": id, "name": NAMES[which], "ts": Decimal(time) / 1000})
        if args := {**({"step": step} if step >= 0 else {}), **({"late": True} if id >= 2990 else {})}:
            events[-1]["args"] = args
    return events


def check(whole: str) -> None:
    assert json.loads(whole, parse_float=Decimal)["traceEvents"] == right()


@pytest.mark.parametrize("room", [1, 5100, 1 << 16, 4 << 20])
def test_events_are_what_their_pieces_say(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(event_text, "_ROOM", room)
    rows, pieces = table()
    parts = [bytes(part) for part in written(rows, pieces, is_first=True)]
    assert (len(parts) == 1) == (room == 4 << 20)
    check('{"traceEvents":[' + b"".join(parts).decode() + "]}")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_of_any_encoding_has_bytes_and_texts_in_their_order(encoding: str) -> None:
    rows, pieces = table()
    data = io.BytesIO()
    file = io.TextIOWrapper(data, encoding=encoding, newline="")
    events = EventFile(file, {"a": "ä"})
    events.add(rows[:10], *pieces)
    events.add_all([{"id": -1}])
    events.add(rows[:0], *pieces)
    events.add(rows[10:], *pieces)
    events.finish()
    file.flush()
    whole = json.loads(data.getvalue().decode(encoding), parse_float=Decimal)
    assert whole == {"a": "ä", "traceEvents": [*right()[:10], {"id": -1}, *right()[10:]]}
    assert events.events == len(ROWS) + 1


def test_a_number_that_is_missing_and_a_text_that_is_not_there_are_errors() -> None:
    name = Choice("name", ["a", "b"], pl.Series([0, 1]).to_numpy())
    with pytest.raises(ValueError, match="1 events have no id"):
        list(written(pl.DataFrame({"id": [1, None]}), [number("id")], is_first=True))
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            list(written(pl.DataFrame({"name": [0, wrong]}), [name.piece], is_first=True))
