"""Tests of live programs are tried again when they fail: clocks, signals and browsers of a busy machine have bad moments.

What failed and passed then is told in the summary (`rerun`): one that shows up there twice is to be mended.
A test in `unit` has no such excuse.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIVE = ("collector", "e2e", "gpu", "web")
TRIES_AGAIN = 2


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(reruns): tried again when it fails, where pytest-rerunfailures is installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).parts[0] in LIVE:
            item.add_marker(pytest.mark.flaky(reruns=TRIES_AGAIN))
