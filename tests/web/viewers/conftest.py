"""Viewers that take long to start are started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from perfetto_ui import Perfetto, started


@pytest.fixture(scope="session")
def perfetto(browser: Any) -> Iterator[Perfetto]:
    with started(browser) as ui:
        yield ui
