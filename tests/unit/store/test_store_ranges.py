"""Paths that name a range of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from aiflame.errors import AiflameError
from aiflame.store.ranges import parse_range

NOW = 1_795_789_830.0
"""2026-11-27T14:30:30Z"""
DAY = 1_795_737_600.0


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("14:00", DAY + 14 * 3600, DAY + 15 * 3600),
        ("9:05:07..9:06", DAY + 9 * 3600 + 307, DAY + 9 * 3600 + 360),
        ("yesterday 14:00", DAY - 10 * 3600, DAY - 9 * 3600),
        ("yesterday", DAY - 86_400, DAY),
        ("2026-11-26", DAY - 86_400, DAY),
        ("2026-11-26T23:00..today 1:00", DAY - 3600, DAY + 3600),
        ("-2h", NOW + 30 - 7200, NOW + 30),
        ("-90m..-30m", NOW + 30 - 5400, NOW + 30 - 1800),
        ("yesterday 14:00..", DAY - 10 * 3600, NOW + 30),
        ("yesterday 14:00..15:30", DAY - 10 * 3600, DAY - 8.5 * 3600),
        ("yesterday 23:00..1:00", DAY - 3600, DAY + 3600),
        ("2026-11-20 9:00..9:05", DAY - 7 * 86_400 + 9 * 3600, DAY - 7 * 86_400 + 9 * 3600 + 300),
        ("yesterday..6:00", DAY - 86_400, DAY - 18 * 3600),
        ("-20h..9:00", NOW + 30 - 72_000, DAY + 9 * 3600),
        ("14:00..now", DAY + 14 * 3600, NOW + 30),
    ],
)
def test_a_range(text: str, begin: float, end: float) -> None:
    parsed = parse_range(text, NOW)
    assert (parsed.begin_s, parsed.end_s) == (begin, end)


def test_conditions() -> None:
    parsed = parse_range("14:00,command=train|serve,rank=3", NOW)
    assert (parsed.command, parsed.rank, parsed.pid) == ("train|serve", "3", "")


@pytest.mark.parametrize(
    "text", ["", "25:00", "14", "soon", "15:00..14:00", "14:00,colour=red", "14:00,command=(", "2026-13-01", "-2y", "9999-12-31"]
)
def test_what_is_no_range_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(AiflameError):
        parse_range(text, NOW)
