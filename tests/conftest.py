"""How the tests are run: which wait for their turn, and which get a second chance.

A test with the mark `timed` times live programs or counts the samples of real clocks, so that another program on its core
changes its result. These tests run one after the other when all others have ended (scheduling.py). One that fails is tried
again, since clocks of a busy machine have bad moments, and the summary names it (`rerun`): a test that is named twice needs
mending. `timed(reruns=0)` marks tests that wait for their turn and have one try.

Every other test has one try, on whichever core is free, a file at a time (`make test`).
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

from timed_tests import give_file, write_ids

TRIES_AGAIN = 2

LONG_FILES_FIRST = ("e2e", "collector", "guests")
"""So that no core is idle in the end because one of their files was started last. Tests in `web` come last: Playwright leaves an event
loop running in its worker, in which asyncio.run() fails."""

# The same examples each time: a change is not refused for what it has not touched. HYPOTHESIS_PROFILE=search looks for new ones.
# No test judges by the clock: a machine may be slow.
settings.register_profile("aiflame", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=600)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiflame"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(reruns): tried again when it fails, where pytest-rerunfailures is installed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if marker := item.get_closest_marker("timed"):
            item.add_marker(pytest.mark.flaky(reruns=marker.kwargs.get("reruns", TRIES_AGAIN)))
    items.sort(key=_turn)
    if hasattr(config, "workerinput"):
        write_ids(config, [item.nodeid for item in items if item.get_closest_marker("timed")])


def _turn(item: pytest.Item) -> tuple[bool, int]:
    room = item.nodeid.removeprefix("tests/").split("/")[0]
    at = LONG_FILES_FIRST.index(room) if room in LONG_FILES_FIRST else len(LONG_FILES_FIRST)
    return item.get_closest_marker("timed") is not None, at


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With several workers (`-n 2`), of each."""
    give_file(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from scheduling import TimedLast

    config.option.loadscopereorder = False
    return TimedLast(config, log)
