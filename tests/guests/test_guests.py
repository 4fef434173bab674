"""Ten real programs run recorded as they run alone. `make guests` runs some eighty."""

from __future__ import annotations

from pathlib import Path

import pytest
from ci_guests import CI_GUESTS
from compare import changes
from guest import Guest
from observe import ALONE, FAST, RECORDED, observe


@pytest.mark.parametrize("guest", CI_GUESTS, ids=lambda guest: guest.name.replace(" ", "-"))
def test_a_program_runs_recorded_as_it_runs_alone(guest: Guest, tmp_path: Path) -> None:
    if reason := guest.missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    alone = observe(guest, ALONE, tmp_path)
    found = {way.name: changes(guest, alone, observe(guest, way, tmp_path)) for way in (RECORDED, FAST)}
    assert not any(found.values()), found
