from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from receiver import Receiver, running


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder is the test's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver
