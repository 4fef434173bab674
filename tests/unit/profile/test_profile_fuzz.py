"""However a profile was damaged, opening it gives an AiflameError or a sound profile.

`benchmarks/profiles/fuzz_profiles.py` does more of the same.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal

import pytest
from profile_mutations import MUTATIONS, mutated, raw_profile, sealed_profile, verdict, write

CASES = 150
HANG_S = 60
MEMORY_KB = 512 * 1024


@pytest.fixture(autouse=True)
def no_hang():
    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"a damaged profile took more than {HANG_S} s")

    signal.signal(signal.SIGALRM, give_up)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("make", [raw_profile, sealed_profile])
def test_a_mutated_profile_is_an_error_or_a_profile(tmp_path, make):
    (tmp_path / "original").mkdir()
    files = make(tmp_path / "original")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(CASES):
        signal.alarm(HANG_S)
        path = write(mutated(files, random.Random(seed)), tmp_path / "mutated.aiflame")
        try:
            verdict(path)
        except BaseException as error:
            error.add_note(f"seed {seed}") if hasattr(error, "add_note") else None
            raise
        shutil.rmtree(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KB


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_changes_something(tmp_path, mutation):
    files = raw_profile(tmp_path)
    changed = dict(files)
    for seed in range(10):
        mutation(changed, random.Random(seed))
    assert changed != files


def test_an_unharmed_profile_is_sound(tmp_path):
    files = raw_profile(tmp_path)
    assert verdict(write(files, tmp_path / "copy.aiflame")) == ""
