"""Calls one function for many items: in processes on this machine, or on a Dask cluster."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

from aiflame.errors import AiflameError
from aiflame.imported_with import ONE_BLAS_THREAD, imported_with

Item = TypeVar("Item")
Result = TypeVar("Result")
AFTER = 500
"""Items after which a process is replaced by a new one: an allocator does not return all memory."""


class Failure(NamedTuple):
    """A call on a cluster that raised an error, or whose worker was lost."""

    item: int
    """Its place in the sequence."""
    message: str


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def in_processes(function: Callable[[Item], Result], items: Sequence[Item], at_once: int) -> Iterator[Result]:
    """The results in the order in which the calls end. `at_once`: how many processes there are. An exception in a
    call is raised here, and BrokenProcessPool where a process was killed."""
    if at_once < 2 or len(items) < 2:
        yield from map(function, items)
        return
    of_each = ONE_BLAS_THREAD | {"POLARS_MAX_THREADS": str(max(1, cpus() // at_once))}
    with imported_with(of_each), _pool(at_once) as pool:
        try:
            yield from _as_they_end(pool, function, items, 2 * at_once)
        finally:
            pool.shutdown(cancel_futures=True)


def on_dask(function: Callable[[Item], Result], items: Sequence[Item], address: str) -> Iterator[Result | Failure]:
    """The results of a cluster whose workers see the same files at the same paths, and have aiflame installed, as they come."""
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
        futures = client.map(function, list(items), pure=False, batch_size=256)
        places = {future.key: place for place, future in enumerate(futures)}
        completed = dask.as_completed(futures, with_results=True, raise_errors=False)
        del futures  # so that the scheduler may forget results that were taken
        for future, result in completed:
            yield result if future.status == "finished" else Failure(places[future.key], str(result))


def _pool(processes: int) -> ProcessPoolExecutor:
    """Uses neither fork nor forkserver: this process may have threads, and Polars does not survive a fork."""
    spawn = multiprocessing.get_context("spawn")
    if sys.version_info >= (3, 11):
        return ProcessPoolExecutor(processes, mp_context=spawn, max_tasks_per_child=AFTER)
    return ProcessPoolExecutor(processes, mp_context=spawn)


def _as_they_end(pool: ProcessPoolExecutor, function: Callable[[Item], Result], items: Sequence[Item], waiting: int) -> Iterator[Result]:
    """Requests only a few results ahead, so that they do not accumulate."""
    left = iter(items)
    running: set[Future[Result]] = set()
    while True:
        for item in left:
            running.add(pool.submit(function, item))
            if len(running) >= waiting:
                break
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()
