"""Paths that name a range of a store: `STORE@14:00..15:30`, `STORE@yesterday 14:00`, `STORE@-2h,command=train.py`. Standard library alone.

A moment without a zone is local time. A single clock time means the hour from there; a time before now reaches until now. An end without a
day is the first such time of day behind the begin.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from aiflame.errors import AiflameError
from aiflame.values import dataclass, replace

_BACK = re.compile(r"-(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CLOCK = re.compile(r"(?:(today|yesterday|\d{4}-\d\d-\d\d)(?:T| )?)?(?:(\d\d?):(\d\d)(?::(\d\d))?)?")
_GRAIN_S = 60
"""Now, for a range: the end of this minute, so that a range asked for twice is imported once."""
FILTERS = ("command", "pid", "rank", "user", "cgroup", "version")


@dataclass(frozen=True, slots=True)
class Range:
    begin_s: float
    """Since 1970."""
    end_s: float
    command: str = ""
    """A regular expression."""
    pid: str = ""
    rank: str = ""
    user: str = ""
    cgroup: str = ""
    version: str = ""

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


def parse_range(text: str, now_s: float) -> Range:
    """The part of a path behind `@`; AiflameError if it is none."""
    when, *filters = text.split(",")
    begin, separator, end = when.partition("..")
    from_s, length = _moment(begin.strip(), now_s)
    to_s = from_s + length if length and not separator else _ceiling(now_s)
    if end.strip():
        to_s = _end(end.strip(), from_s, now_s, own_day=_has_day(begin.strip()))
    if to_s <= from_s:
        raise AiflameError(f"{when!r} ends before it begins: write a range like 14:00..15:30")
    result = Range(from_s, to_s)
    for one in filters:
        name, _, value = one.partition("=")
        if name.strip() not in FILTERS or not value:
            raise AiflameError(f"{one!r} is no condition: write one of {', '.join(f'{name}=…' for name in FILTERS)}")
        result = replace(result, **{name.strip(): value.strip()})  # type: ignore[arg-type]
    try:
        re.compile(result.command)
    except re.error as error:
        raise AiflameError(f"command={result.command}: not a regular expression ({error})") from None
    return result


def _has_day(text: str) -> bool:
    """False: a time by the clock alone, which is today's."""
    match = _CLOCK.fullmatch(text)
    return match is None or match[1] is not None


def _end(text: str, from_s: float, now_s: float, *, own_day: bool) -> float:
    """`own_day`: the begin names its day, or is so long before now."""
    if not own_day or _has_day(text):
        return _moment(text, now_s)[0]
    to_s = _moment(text, from_s)[0]
    return to_s if to_s > from_s else _moment(text, from_s, days=1)[0]


def _moment(text: str, now_s: float, days: int = 0) -> tuple[float, float]:
    """Seconds since 1970, and the length of the range that a lone moment means; 0: until now. `days`: so many later."""
    if text == "now":
        return _ceiling(now_s), 0
    if back := _BACK.fullmatch(text):
        return _ceiling(now_s) - float(back[1]) * _UNITS[back[2]], 0
    match = _CLOCK.fullmatch(text)
    if not text or match is None:
        raise AiflameError(f"{text!r} is no moment: write 14:00, yesterday 14:00, 2026-11-27 14:00, -2h or now")
    day, hour, minute, second = match.groups()
    try:
        on = _day(day, now_s) + timedelta(days=days)
        begin = datetime(on.year, on.month, on.day, int(hour or 0), int(minute or 0), int(second or 0))
        if hour is None:
            following = on + timedelta(days=1)
            return begin.timestamp(), datetime(following.year, following.month, following.day).timestamp() - begin.timestamp()
        return begin.timestamp(), 3600
    except (ValueError, OverflowError):
        raise AiflameError(f"{text!r} is no moment: there is no such time of day") from None


def _day(name: str | None, now_s: float) -> date:
    today = datetime.fromtimestamp(now_s).date()
    if name in (None, "today"):
        return today
    return today - timedelta(days=1) if name == "yesterday" else date.fromisoformat(str(name))


def _ceiling(now_s: float) -> float:
    return -(-now_s // _GRAIN_S) * _GRAIN_S
