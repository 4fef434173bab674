"""Containers of the program that got longer while its memory grew, and the lines that allocated the memory of their entries."""

from __future__ import annotations

from collections import Counter

import polars as pl

from aiflame.analyze.memory.holders import with_places
from aiflame.analyze.places import short_place
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.meaning.context import profile_steps
from aiflame.attribute.memory.addresses import blocks_at
from aiflame.attribute.memory.blocks import NEVER
from aiflame.values import dataclass

_MOST_ADDRESSES = 256
Place = tuple[str, str, int, str]
"""Memory, file, line, function."""


@dataclass(frozen=True, slots=True)
class Container:
    process: int
    name: str
    """How the program reaches it: `trainer.losses in main() of train.py`."""
    entries: str
    """`list of Tensor, 1 more a step`"""
    graphs: bool
    """Its entries keep their autograd graphs."""
    lines: tuple[tuple[Place, int], ...]
    """Lines that allocated the memory of its newest entries, with the number of these. None: no block is recorded at their addresses."""


@once
def containers(profile: Analysis) -> tuple[Container, ...]:
    rows = profile.table("memory_holders").sort("process", "time_ns", "added", descending=[False, False, True], maintain_order=True)
    return tuple(_container(profile, row) for row in rows.iter_rows(named=True))


@dataclass(frozen=True, slots=True)
class Holder:
    text: str
    """`losses of train.py (list of Tensor, 1 more a step)`"""
    sure: bool
    """Its entries lie in blocks that the line allocated."""


def holder(profile: Analysis, process: int, place: Place) -> Holder | None:
    """The container that holds the blocks that a line of a process allocated; None: not known. It is a guess where addresses do not show
    it: a graph's memory is not that of the tensor that keeps it, and memory of the host is sampled."""
    own = [one for one in containers(profile) if one.process == process]
    entries = {one: dict(one.lines).get(place, 0) for one in own}
    sure = sorted((one for one in entries if entries[one]), key=lambda one: -entries[one])
    if sure:
        more = f", and {_text(sure[1])}" if len(sure) > 1 else ""
        return Holder(_text(sure[0]) + more, sure=True)
    with_graphs = [one for one in own if one.graphs]
    if with_graphs:
        return Holder(f"autograd graphs in {_text(with_graphs[0])}", sure=False)
    unknown = [one for one in own if not one.lines]
    return Holder(_text(unknown[0]), sure=False) if len(unknown) == len(own) == 1 else None


def _text(one: Container) -> str:
    return f"{one.name} ({one.entries})"


def _container(profile: Analysis, row: dict[str, object]) -> Container:
    process, since, now, added = (int(str(row[name])) for name in ("process", "since_ns", "time_ns", "added"))
    path, function, file, kind, content = (str(row[name]) for name in ("path", "function", "file", "type", "content"))
    data = row["addresses"]
    words = memoryview(data[: len(data) // 8 * 8]).cast("Q").tolist() if isinstance(data, bytes) else []
    at = blocks_at(profile, process, words[:_MOST_ADDRESSES], min(now, NEVER - 1))
    placed = with_places(profile, at)
    lines = Counter(placed.select("memory", "file", "line", "function").rows())
    name = f"{path}{f' in {function}()' if function else ''}{f' of {short_place(file)}' if file else ''}"
    of = f"{kind} of {content}" if content else kind
    return Container(process, name, f"{of}, {_pace(profile, process, added, since, now)}", bool(row["graphs"]), tuple(lines.most_common()))


def _pace(profile: Analysis, process: int, added: int, since: int, now: int) -> str:
    ends = profile_steps(profile).rows.filter(pl.col("process") == process)["end_ns"].cast(pl.Int64)
    steps = int(ends.is_between(min(since, NEVER - 1), min(now, NEVER - 1)).sum())
    if steps:
        return f"{added / steps:.3g} more a step"
    return f"{added:,} more in {max(now - since, 0) / 1e9:.3g} s"
