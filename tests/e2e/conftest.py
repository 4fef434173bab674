"""Recording real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import Recorder, recorder


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    """Runs a command under `aiflame record`, as a person does."""

    return recorder(tmp_path)
