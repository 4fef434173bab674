"""Ten real programs run recorded as they run alone. `make guests` runs some eighty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ci_guests import CI_GUESTS
from compare import changes
from guest import Guest
from observe import ALONE, FAST, RECORDED, observe


@pytest.fixture
def folder() -> Iterator[Path]:
    """Pytest's own folders are closed to other users, whom some guests become."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.mark.parametrize("guest", CI_GUESTS, ids=lambda guest: guest.name.replace(" ", "-"))
def test_a_program_runs_recorded_as_it_runs_alone(guest: Guest, folder: Path) -> None:
    if reason := guest.missing():
        pytest.skip(reason)
    alone = observe(guest, ALONE, folder)
    changed = {way.name: changes(guest, alone, observe(guest, way, folder)) for way in (RECORDED, FAST)}
    assert not any(changed.values()), changed
