"""V8's profiles, as node and Chrome write them: `.cpuprofile`, and `.heapprofile` with bytes instead of time.

A sample lasts until the next one. Times are by the clock; V8 says itself when nothing ran: `(idle)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame
from aiflame.exchange.readers.json_document import begins_object, document, file_of, mapping, sequence, text, whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import DEEPEST, WALL, Sampled
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind

_ROOT, _IDLE = "(root)", "(idle)"
_MARKED = re.compile(rb'"callFrame"\s*:|"functionName"\s*:')
_MOST_LINE = (1 << 31) - 2


def is_one(head: bytes) -> bool:
    return begins_object(head) and bool(_MARKED.search(head[:65536])) and (b'"nodes"' in head or b'"head"' in head)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    file = document(source)
    progress(0.4)
    rows = Sampled(making)
    process = rows.process()
    calls = calls_of_nodes(rows, process, file)
    progress(0.6)
    if add_times(rows, process, calls, file):
        making.note("the file has times by the clock; it does not say for how long a processor was used")
    else:
        _add_counts(rows, process, calls, file)
    rows.finish()


class Rows(Protocol):
    """A receiver of the calls and samples of a profile."""

    making: Making

    def call(self, process: int, parent: int, frame: AnyFrame) -> int: ...

    def time(self, process: int, thread: int, call: int, clock: int, ns: int, at: int) -> None: ...


class Node:
    def __init__(self, given: dict[str, Any], parent: object) -> None:
        self.given, self.parent, self.call = given, parent, -1


def _nodes(file: dict[str, Any]) -> Iterator[Node]:
    """All nodes. Those of old files lie in each other; others name their children, or in Chrome's traces their parent."""
    head = file.get("head")
    if isinstance(head, dict):
        ahead: list[tuple[dict[str, Any], object]] = [(head, None)]
        while ahead:
            given, parent = ahead.pop()
            yield Node(given, parent)
            ahead += [(mapping(child), given.get("id")) for child in sequence(given.get("children"))]
        return
    nodes = [mapping(one) for one in sequence(file.get("nodes"))]
    parents = {child: one.get("id") for one in nodes for child in sequence(one.get("children")) if isinstance(child, int)}
    for one in nodes:
        number = one.get("id")
        yield Node(one, one.get("parent", parents.get(number) if isinstance(number, int) else None))


def calls_of_nodes(rows: Rows, process: int, file: dict[str, Any]) -> dict[int, Node]:
    """The nodes by their ids, each with its call."""
    by_id = {node.given["id"]: node for node in _nodes(file) if isinstance(node.given.get("id"), int)}
    visited: set[int] = set()
    for number in by_id:
        path: list[int] = []
        at: object = number
        while isinstance(at, int) and at in by_id and at not in visited:
            path.append(at)
            visited.add(at)
            if len(path) > DEEPEST:
                raise AiflameError(f"calls of the file lie more than {DEEPEST:,} deep in each other")
            at = by_id[at].parent
        if isinstance(at, int) and at in path:
            raise AiflameError(f"node {at} of the file is its own caller: it is damaged")
        for one in reversed(path):
            node = by_id[one]
            parent = node.parent
            above = by_id[parent].call if isinstance(parent, int) and parent in by_id else -1
            frame = _frame(node.given)
            node.call = above if frame.name == _ROOT and above < 0 else rows.call(process, above, frame)
    return by_id


def _frame(node: dict[str, Any]) -> NamedFrame:
    given = mapping(node.get("callFrame")) or node
    name, url = text(given.get("functionName")) or "(anonymous)", text(given.get("url"))
    line = whole(given.get("lineNumber"), -1) + ("callFrame" in node)  # from 0, in new files
    ticks = [mapping(one) for one in sequence(node.get("positionTicks"))]
    if len(ticks) == 1:  # all of its samples were there
        line = whole(ticks[0].get("line"), line)
    return NamedFrame(name, Kind.WAIT if name == _IDLE else Kind.C, "", file_of(url), min(max(line, 0), _MOST_LINE))


def add_times(rows: Rows, process: int, calls: dict[int, Node], file: dict[str, Any]) -> bool:
    """False: the file has none."""
    samples = sequence(file.get("samples"))
    seconds = "callFrame" not in mapping(file.get("head"))
    stamps, deltas = sequence(file.get("timestamps")), sequence(file.get("timeDeltas"))
    if len(stamps) == len(samples) + 1:  # with the moment of the begin
        stamps = stamps[1:]
    if not samples or len(samples) not in (len(stamps), len(deltas)) or not all(isinstance(one, int) for one in samples):
        return False
    if deltas:
        at = whole(file.get("startTime")) + np.cumsum(np.array([whole(one) for one in deltas], dtype=np.float64)).astype(np.int64)
    else:
        at = np.array([whole(one) for one in stamps], dtype=np.int64)
    order = np.argsort(at, kind="stable")
    at = at[order]
    end = whole(file.get("endTime")) * (10**6 if stamps and seconds else 1)
    until = np.append(at[1:], max(end, int(at[-1])))
    unknown = 0
    for which, begin, stop in zip(order.tolist(), at.tolist(), until.tolist(), strict=True):
        node = calls.get(samples[which])
        unknown += node is None
        rows.time(process, 0, node.call if node is not None else -1, WALL, (stop - begin) * 1000, stop * 1000)
    if unknown:
        rows.making.note(f"{unknown:,} samples refer to nodes that the file lacks")
    return True


def _add_counts(rows: Sampled, process: int, calls: dict[int, Node], file: dict[str, Any]) -> None:
    if any("selfSize" in node.given for node in calls.values()):
        kind, member = rows.kind("selfSize", "bytes", "bytes that were allocated and are still used"), "selfSize"
    elif any("hitCount" in node.given for node in calls.values()):
        kind, member = rows.kind("samples", "samples"), "hitCount"
    else:
        raise AiflameError("the file has neither samples with times nor counts of samples")
    for node in calls.values():
        if amount := whole(node.given.get(member)):
            rows.value(process, 0, node.call, kind, amount)
