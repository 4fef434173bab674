"""Nothing is lost when the recorder or the program is killed, also while a reader has the profile open: some moments; `killed.py` has
fifty."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from killed import CASES, Case, moments, run

MOMENTS = int(os.environ.get("AIFLAME_MOMENTS", "2"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_what_was_recorded_is_there_in_the_end_and_meanwhile(case: Case, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    for number, moment in enumerate(moments(MOMENTS, seed)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert run(case, moment, folder) == [], f"killed at {moment:.3f} s (seed {seed})"
