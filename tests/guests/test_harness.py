"""The comparison notices guests that do change when they are recorded, and recordings that are silently empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from compare import changes
from guest import Guest
from observe import ALONE, RECORDED, Observation, Recording, observe

SCRIPTS = {
    "status": ('test -z "$AIFLAME_PROFILE"', "status 0 alone, status 1 recorded"),
    "signal": ('test -z "$AIFLAME_PROFILE" || kill -TERM $$', "status 0 alone, ended by SIGTERM recorded"),
    "stdout": ('echo "profile $AIFLAME_PROFILE"', "stdout differs"),
    "stderr": ('echo "profile $AIFLAME_PROFILE" >&2', "stderr differs"),
    "a new file": ('test -z "$AIFLAME_PROFILE" || touch dropped', "files that the program did not write alone: dropped"),
    "a lost file": ('test -n "$AIFLAME_PROFILE" || touch kept', "files not written: kept"),
    "another text": ('echo "$AIFLAME_PROFILE" > text', "files written otherwise: text"),
    "a process that goes on": (
        'test -z "$AIFLAME_PROFILE" || { setsid sleep 60 >out 2>&1 & sleep 0.5; rm out; }',
        "0 processes go on alone, 1 recorded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_that_changes_is_noticed(name: str, tmp_path: Path) -> None:
    script, expected = SCRIPTS[name]
    guest = Guest(name, ("sh", "-c", script))
    changed = changes(guest, observe(guest, ALONE, tmp_path), observe(guest, RECORDED, tmp_path))
    assert len(changed) == 1, changed
    assert changed[0].startswith(expected), changed


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    guest = Guest("endless", ("sh", "-c", "sleep 600 & sleep 600"), seconds=1)
    assert observe(guest, ALONE, tmp_path).status is None


FULL = Recording(samples=500, sampled=1, sampled_ns=2_400_000_000, processes=1, bytes=1, notes=(), silent=())
SEEN = Observation(0, "", "", {}, 2.5, 0.1, 1 << 20, 2_500_000_000, 0, FULL)
EMPTY = {
    "a busy process has no sample": (replace(FULL, silent=(77,)), "processes without samples, and no note says why: 77"),
    "samples of a tenth of the time": (replace(FULL, sampled_ns=250_000_000), "10% of the CPU time is in samples, and no note says why"),
    "a profile that cannot be read": (replace(FULL, error="no"), "the profile cannot be read: no"),
    "fewer processes than must have samples": (replace(FULL, sampled=0), "0 of at least 1 processes have samples: no note says why"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_recording_that_is_silently_empty_is_noticed(name: str) -> None:
    recording, expected = EMPTY[name]
    guest = Guest("any", ("true",), sampled=1)
    assert changes(guest, SEEN, SEEN) == []
    assert changes(guest, SEEN, replace(SEEN, recording=recording)) == [expected]


def test_a_note_excuses_what_has_no_samples() -> None:
    noted = replace(FULL, silent=(77,), notes=("recording ends where the program enters a sandbox",))
    assert changes(Guest("any", ("true",)), SEEN, replace(SEEN, recording=noted)) == []
