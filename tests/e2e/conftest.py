"""Recording real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import Recorder, recorder


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    """Runs a command under `aiflame record`. The profile is sealed when the test opens it."""

    return recorder(tmp_path)


@pytest.fixture
def record_and_seal(tmp_path: Path) -> Recorder:
    """Runs a command under `aiflame record`, as a person does: a process in the background seals the profile."""

    return recorder(tmp_path, sealed=True)
