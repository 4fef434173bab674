"""Computes the facts of many ranks: in processes on this machine, within a bound of memory, or on a Dask cluster. Both run the same
function, and merge its results as they come."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.sources import AT_LEAST, Source, facts_of, needed
from aiflame.errors import AiflameError

KEPT = 1 << 20
"""About the memory of a rank's facts: a row for each collective, and some for layers and steps."""
AFTER = 500
"""Ranks that a process analyses before a new one replaces it: an allocator does not return all memory."""
Progress = Callable[[float], None]


def here(sources: Sequence[Source], memory: int, progress: Progress | None = None, processes: int | None = None) -> Partial:
    """Computes facts in as many processes as there are CPUs, or fewer if `memory` (bytes of all processes together) has no room for
    them."""
    at_once = room(sources, memory, processes or len(os.sched_getaffinity(0)))
    if at_once < 2 or len(sources) < 2:
        return _merged(map(facts_of, sources), len(sources), progress)
    with _threads(max(1, len(os.sched_getaffinity(0)) // at_once)), _pool(at_once) as pool:
        try:
            return _merged(_as_they_come(pool, sources, 2 * at_once), len(sources), progress)
        except BrokenProcessPool:
            why = "a process that read a rank was ended, most likely for want of memory: ask for less with --memory"
            raise AiflameError(why) from None
        finally:
            pool.shutdown(cancel_futures=True)


def room(sources: Sequence[Source], memory: int, most: int) -> int:
    """How many ranks are analysed at once, assuming that all are as large as the largest."""
    each = max((needed(source) for source in sources), default=AT_LEAST)
    left = memory - AT_LEAST - KEPT * len(sources)
    return max(1, min(most, len(sources), left // each))


def on_dask(sources: Sequence[Source], address: str, progress: Progress | None = None) -> Partial:
    """Computes facts on a cluster whose workers see the same files at the same paths, and have aiflame installed."""
    try:
        dask: Any = importlib.import_module("distributed")
    except ImportError:
        raise AiflameError("--dask needs the package `distributed`: pip install 'aiflame[dask]'") from None
    try:
        client = dask.Client(address, timeout=20)
    except (OSError, ValueError) as error:
        raise AiflameError(
            f"no Dask scheduler answers at {address} ({str(error).partition(chr(10))[0]}): name one, tcp://HOST:8786"
        ) from None
    with client:
        futures = client.map(facts_of, list(sources), pure=False, batch_size=256)
        completed = dask.as_completed(futures, with_results=True, raise_errors=False)
        names = {future.key: source.name for future, source in zip(futures, sources, strict=True)}
        del futures  # so that the scheduler may forget merged results
        return _merged((_from_worker(future, result, names) for future, result in completed), len(sources), progress)


def _from_worker(future: Any, result: Any, names: dict[str, str]) -> Partial:
    """The result of a worker; a failure becomes a note."""
    if future.status == "finished":
        assert isinstance(result, Partial)
        return result
    return Partial(notes=(f"{names[future.key]} could not be analysed on the cluster: {result}",))


def _pool(processes: int) -> ProcessPoolExecutor:
    """Uses neither fork nor forkserver: this process may have threads, and Polars does not survive a fork."""
    spawn = multiprocessing.get_context("spawn")
    if sys.version_info >= (3, 11):
        return ProcessPoolExecutor(processes, mp_context=spawn, max_tasks_per_child=AFTER)
    return ProcessPoolExecutor(processes, mp_context=spawn)


def _as_they_come(pool: ProcessPoolExecutor, sources: Sequence[Source], waiting: int) -> Iterator[Partial]:
    """Requests only a few results ahead, so that they do not accumulate."""
    waiting_sources = iter(sources)
    running: set[Future[Partial]] = set()
    while True:
        for source in waiting_sources:
            running.add(pool.submit(facts_of, source))
            if len(running) >= waiting:
                break
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


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


@contextlib.contextmanager
def _threads(many: int) -> Iterator[None]:
    """Sets the number of Polars' threads in each process; Polars reads the environment when it is imported."""
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = str(many)
    try:
        yield
    finally:
        os.environ.pop("POLARS_MAX_THREADS")
        if before is not None:
            os.environ["POLARS_MAX_THREADS"] = before
