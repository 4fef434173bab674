"""How the tests are run: which wait for their turn, and which get a second chance.

Those that time live programs run one after the other, behind all else; the rest runs on every core, a file at a time (`make test`).

Tests of live programs are tried again when they fail: clocks, signals and browsers of a busy machine have bad moments.
What failed and passed then is told in the summary (`rerun`): one that shows up there twice is to be mended.
A test in `unit` has no such excuse.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

LIVE = ("collector", "e2e", "gpu", "web")
TIMED = ("collector", "e2e", "gpu", "guests")
TRIES_AGAIN = 2

# The same examples each time: a change is not refused for what it has not touched. HYPOTHESIS_PROFILE=search looks for new ones.
# No test judges by the clock: a machine may be slow.
settings.register_profile("aiflame", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=600)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiflame"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(reruns): tried again when it fails, where pytest-rerunfailures is installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _room(item.nodeid) in LIVE:
            item.add_marker(pytest.mark.flaky(reruns=TRIES_AGAIN))
    items.sort(key=lambda item: _room(item.nodeid) in TIMED)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers (`-n 2`): a file at a time, in order, and all that is timed as one file, which comes last."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "timed" if _room(nodeid) in TIMED else str(super()._split_scope(nodeid))

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def _room(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").split("/")[0]
