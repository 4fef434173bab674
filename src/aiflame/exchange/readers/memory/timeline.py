"""`memory_timeline.raw.json` of torch.profiler's `export_memory_timeline()`: changes of a device's memory, by category, without stacks."""

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
    return bool(_FIRST_ROW.match(head))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    try:
        content = json.loads(source.whole(_MOST))
    except (ValueError, RecursionError) as error:
        raise AiflameError(f"{source.path} is no whole JSON document: {str(error)[:100] or 'it is nested too deeply'}") from None
    if not isinstance(content, list):
        raise AiflameError(f"{source.path} is no list of changes of memory")
    changes = list(_changes(content))
    if len(changes) < len(content):
        making.note(f"{len(content) - len(changes):,} rows of the timeline are no changes of memory: they are left out")
    progress(0.5)
    making.lacks = ("stacks",)
    rows = Sampled(making)
    for kind in KINDS:
        rows.kind(*kind)
    process = rows.process()
    calls = [rows.call(process, -1, NamedFrame(category)) for category in _CATEGORIES]
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
    for number, sums in ((PEAK, at_peak), (END, live)):
        for category, size in sorted(sums.items()):
            if size:
                rows.value(process, 0, calls[category], number, size)
    if most:
        making.note(f"the most memory was live after change {at + 1:,} of {len(changes):,}: {size_text(most)}")
    first = min((moment for moment, *_ in changes if moment != NO_TIME), default=0)
    making.realtime_ns = first if first > _YEAR_2001_NS else 0
    rows.finish()


def _changes(content: list[object]) -> Iterator[Change]:
    for row in content:
        if isinstance(row, list) and len(row) == 4 and all(type(value) is int for value in row):
            moment, action, size, category = row
            if action in _ACTIONS and 0 <= category < len(_CATEGORIES) and abs(size) <= _MOST_BYTES:
                yield moment if 0 < moment < _SENSIBLE_NS else NO_TIME, action, size, category
