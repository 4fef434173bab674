"""Computes the facts of many ranks, and merges them as they come: in processes, within a bound of memory, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

from aiflame import fan_out
from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.sources import AT_LEAST, Source, facts_of, needed
from aiflame.errors import AiflameError

KEPT = 1 << 20
"""About the memory of a rank's facts: a row for each collective, and some for layers and steps."""
Progress = Callable[[float], None]


def here(sources: Sequence[Source], memory: int, progress: Progress | None = None, processes: int | None = None) -> Partial:
    """Computes facts in as many processes as there are CPUs, or fewer if `memory` (bytes of all processes together) has no room for
    them."""
    at_once = room(sources, memory, processes or fan_out.cpus())
    try:
        return _merged(fan_out.in_processes(facts_of, sources, at_once), len(sources), progress)
    except BrokenProcessPool:
        why = "a process that read a rank was ended, most likely for want of memory: ask for less with --memory"
        raise AiflameError(why) from None


def room(sources: Sequence[Source], memory: int, most: int) -> int:
    """How many ranks are analysed at once, assuming that all are as large as the largest."""
    each = max((needed(source) for source in sources), default=AT_LEAST)
    left = memory - AT_LEAST - KEPT * len(sources)
    return max(1, min(most, len(sources), left // each))


def on_dask(sources: Sequence[Source], address: str, progress: Progress | None = None) -> Partial:
    """Computes facts on a cluster. A rank that fails there becomes a note."""
    results = fan_out.on_dask(facts_of, sources, address)
    return _merged((_noted(result, sources) for result in results), len(sources), progress)


def _noted(result: Partial | fan_out.Failure, sources: Sequence[Source]) -> Partial:
    if isinstance(result, fan_out.Failure):
        return Partial(notes=(f"{sources[result.item].name} could not be analysed on the cluster: {result.message}",))
    return result


def _merged(parts: Iterator[Partial], many: int, progress: Progress | None) -> Partial:
    """Merges parts in any order, parts of equal size first, so that each is copied only a few times."""
    waiting: list[tuple[int, Partial]] = []
    for number, part in enumerate(parts, 1):
        size = 1
        while waiting and waiting[-1][0] == size:
            part = waiting.pop()[1].merged(part)
            size *= 2
        waiting.append((size, part))
        if progress is not None:
            progress(number / many)
    whole = Partial()
    for _, part in waiting:
        whole = whole.merged(part)
    return whole
