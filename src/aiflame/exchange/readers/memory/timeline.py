"""Files of torch.profiler's `export_memory_timeline()`: a device's memory by category, without stacks.

`raw.json.gz` has each change, `.json` the bytes after each change: `[[time, ...], [[0, parameters, optimizer state, ...], ...]]`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.memory.kinds import ALLOCATED, ALLOCATIONS, END, KINDS, PEAK, size_text
from aiflame.exchange.readers.sampled.samples import NO_TIME, Sampled
from aiflame.exchange.readers.source import Source

_MOST = 128 << 20
_FIRST_ROW = re.compile(rb"\s*\[\s*\[\s*-?\d{1,19}\s*,\s*[1-4]\s*,\s*-?\d{1,18}\s*,\s*[0-7]\s*\]\s*[,\]]")
_CURVE = re.compile(rb"\s*\[\s*\[\s*\d{10,19}\s*(,\s*\d{10,19}\s*){0,4}[,\]]\s*(\d{10}|\[)")
_CATEGORIES = (
    "[parameters]",
    "[optimizer state]",
    "[inputs]",
    "[temporaries]",
    "[activations]",
    "[gradients]",
    "[autograd detail]",
    "[other memory]",
)
_ACTIONS = _PREEXISTING, _CREATE, _INCREMENT_VERSION, _DESTROY = range(1, 5)
_MOST_BYTES = 1 << 44
_YEAR_2001_NS = 10**18
_SENSIBLE_NS = 1 << 62
Change = tuple[int, int, int, int]


def is_one(head: bytes) -> bool:
    return bool(_FIRST_ROW.match(head) or _CURVE.match(head))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    try:
        content = json.loads(source.whole(_MOST))
    except (ValueError, RecursionError) as error:
        raise AiflameError(f"{source.path} is no whole JSON document: {str(error)[:100] or 'it is nested too deeply'}") from None
    if not isinstance(content, list):
        raise AiflameError(f"{source.path} is no list of changes of memory")
    progress(0.5)
    if _is_curve(content):
        _read_curve(content, making)
    else:
        _read_changes(content, making)


def _read_changes(content: list[object], making: Making) -> None:
    changes = list(_changes(content))
    if len(changes) < len(content):
        making.note(f"{len(content) - len(changes):,} rows of the timeline are no changes of memory: they are left out")
    making.lacks = ("stacks",)
    rows, process, calls = _begun(making)
    live: Counter[int] = Counter()
    now = most = at = 0
    at_peak: Counter[int] = Counter()
    for number, (moment, action, size, category) in enumerate(changes):
        live[category] += size
        now += size
        if now > most:
            most, at, at_peak = now, number, live.copy()
        if action == _CREATE:
            rows.value(process, 0, calls[category], ALLOCATED, size, moment)
            rows.value(process, 0, calls[category], ALLOCATIONS, 1, moment)
    _add_sums(rows, process, calls, at_peak, live)
    if most:
        making.note(_peak_text(most, at, len(changes)))
    first = min((moment for moment, *_ in changes if moment != NO_TIME), default=0)
    making.realtime_ns = first if first > _YEAR_2001_NS else 0
    rows.finish()


def _changes(content: list[object]) -> Iterator[Change]:
    for row in content:
        if isinstance(row, list) and len(row) == 4 and all(type(value) is int for value in row):
            moment, action, size, category = row
            if action in _ACTIONS and 0 <= category < len(_CATEGORIES) and abs(size) <= _MOST_BYTES:
                yield moment if 0 < moment < _SENSIBLE_NS else NO_TIME, action, size, category


def _is_curve(content: list[object]) -> bool:
    return len(content) == 2 and isinstance(content[1], list) and bool(content[1]) and isinstance(content[1][0], list)


def _read_curve(content: list[object], making: Making) -> None:
    times, sizes = content
    assert isinstance(sizes, list)
    curve = [Counter(dict(enumerate(row[1:]))) for row in sizes if _is_moment(row)]
    if len(curve) < len(sizes):
        making.note(f"{len(sizes) - len(curve):,} rows of the timeline are no sizes of categories: they are left out")
    making.lacks = ("stacks", "allocations")
    rows, process, calls = _begun(making)
    if curve:
        at = max(range(len(curve)), key=lambda number: curve[number].total())
        _add_sums(rows, process, calls, curve[at], curve[-1])
        making.note(_peak_text(curve[at].total(), at, len(curve)))
    first = times[0] * 1000 if isinstance(times, list) and times and type(times[0]) is int else 0
    making.realtime_ns = first if _YEAR_2001_NS < first < _SENSIBLE_NS else 0
    rows.finish()


def _is_moment(row: object) -> bool:
    """Whether it is 0 and the bytes of each category: torch draws bands between neighbours."""
    return (
        isinstance(row, list) and len(row) == len(_CATEGORIES) + 1 and all(type(size) is int and 0 <= size <= _MOST_BYTES for size in row)
    )


def _begun(making: Making) -> tuple[Sampled, int, list[int]]:
    """The rows, their process, and a call for each category."""
    rows = Sampled(making)
    for kind in KINDS:
        rows.kind(*kind)
    process = rows.process()
    return rows, process, [rows.call(process, -1, NamedFrame(category)) for category in _CATEGORIES]


def _add_sums(rows: Sampled, process: int, calls: list[int], at_peak: Counter[int], at_end: Counter[int]) -> None:
    for number, sums in ((PEAK, at_peak), (END, at_end)):
        for category, size in sorted(sums.items()):
            if size:
                rows.value(process, 0, calls[category], number, size)


def _peak_text(most: int, at: int, count: int) -> str:
    return f"the most memory was live after change {at + 1:,} of {count:,}: {size_text(most)}"
