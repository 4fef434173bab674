"""How the tests are run: which wait for their turn, which get a second chance, and for how long each may run.

A test has the mark `timed` where another program on its core changes its result: it compares times on the clock, or its program must have
much of a core. These tests run when all others have ended, a file at a time, and each worker keeps to a core of its own meanwhile
(timed_tests.py). `timed(alone=True)` marks tests of programs that need several cores at once: they run last, one after the other
(scheduling.py). A timed test that fails is tried again, since clocks of a busy machine have bad moments, and the summary names it
(`rerun`): a test that is named twice needs mending.

Every other test has one try, on whichever core is free, a file at a time (`make test`). Among them are most tests of live programs: samples
of CPU time, which are compared with the program's own account of it, and programs that mostly sleep, during which others use the core.

A test that hangs fails after BOUND_S, with the stacks of its threads, and is not tried again. `timeout(SECONDS)` sets another bound.
Where it hangs in C code, Python cannot raise an error: its worker ends instead (`faulthandler_timeout` in pyproject.toml), and xdist
starts a new one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import settings

from rewritten import collected_files, rewrite_part
from timed_tests import ALONE, TIMED, Worker, give_folder, kind

TRIES_AGAIN = 2
BOUND_S = 600
"""Of a test with its fixtures and its tries, not of its wait for its turn. The longest take two minutes on a busy machine."""
TURNS = ("", TIMED, ALONE)
POLARS_THREADS = "POLARS_MAX_THREADS"
_WORKER = pytest.StashKey[Worker]()

LONG_FILES_FIRST = ("e2e", "collector", "guests")
"""So that no core is idle in the end because one of their files was started last. Tests in `web` come last: Playwright leaves an event
loop running in its worker, in which asyncio.run() fails."""

# The same examples each time, so that a change is refused only for code that it touched. HYPOTHESIS_PROFILE=search makes new ones.
# No test judges by the clock: a machine may be slow.
settings.register_profile("aiflame", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=600)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiflame"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(reruns): tried again when it fails, where pytest-rerunfailures is installed")
    config.addinivalue_line("markers", "timeout(seconds): fails when it takes longer, where pytest-timeout is installed")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and not sys.dont_write_bytecode:
        number = int(worker["workerid"].removeprefix("gw"))
        rewrite_part(session.config, collected_files(session.config), number, worker["workercount"])
    with _polars_has_one_thread(), _garbage_waits():
        return (yield)


@contextmanager
def _garbage_waits() -> Iterator[None]:
    """Objects of the collection stay until the end. Python does not search them for garbage, neither meanwhile nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _polars_has_one_thread() -> Iterator[None]:
    """In this process, which imports the tests meanwhile, and not in those that it starts later. The tables of most tests have a few rows:
    Polars takes longer to share the work among threads than to do it."""
    given = os.environ.get(POLARS_THREADS)
    os.environ[POLARS_THREADS] = given or "1"
    try:
        yield
    finally:
        if polars := sys.modules.get("polars"):
            polars.thread_pool_size()  # starts them
        if given is None:
            del os.environ[POLARS_THREADS]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if kind(item):
            # pytest-timeout has one timer for all tries: a test that hangs again would have none.
            item.add_marker(pytest.mark.flaky(reruns=TRIES_AGAIN, rerun_except="from pytest-timeout"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BOUND_S))
    items.sort(key=_turn)
    if hasattr(config, "workerinput"):
        config.stash[_WORKER] = Worker(config.workerinput)
        config.stash[_WORKER].write_kinds(items)


def _turn(item: pytest.Item) -> tuple[int, int]:
    room = item.nodeid.removeprefix("tests/").split("/")[0]
    at = LONG_FILES_FIRST.index(room) if room in LONG_FILES_FIRST else len(LONG_FILES_FIRST)
    return TURNS.index(kind(item)), at


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    worker = item.config.stash.get(_WORKER, None)
    if worker is None:
        return (yield)
    with worker.turn(item):
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if worker := session.config.stash.get(_WORKER, None):
        worker.end_untimed()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With several workers (`-n 2`), of each."""
    give_folder(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from scheduling import AloneLast

    config.option.loadscopereorder = False
    return AloneLast(config, log)
