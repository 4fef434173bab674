"""Programs whose outcome without us is the same for each rate of samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from live import Outcome, plain


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """The outcome of a command without us: it runs once."""
    return cache(lambda *command: plain(command, tmp_path_factory.mktemp("alone")))
