"""Programs with a known answer: the tree must show the times that they report."""

from __future__ import annotations

import pytest
from recording import PROGRAMS, PYTHON, Recorder, Stay, sampled, stays_of, time_under

from aiflame.api import Profile
from built import built
from interpreters import VERSIONS, interpreter


def shown_as_spent(profile: Profile, stays: list[Stay]) -> None:
    """Each sample is under the function that its thread was in at that moment, and the time too, as far as samples can show."""
    tree = profile.tree("cpu-time")
    for function in ("a", "b"):
        own = [stay for stay in stays if stay.function == function]
        shown, samples = time_under(tree, function, "spin"), sampled(profile, own)
        assert shown == pytest.approx(samples.time_ns, rel=0.005), function
        assert -samples.lost_ns <= shown - sum(stay.cpu_ns for stay in own) <= samples.gained_ns, function


def test_native_code_without_frame_pointers_splits_as_it_was_called(record: Recorder) -> None:
    run = record(PYTHON, PROGRAMS / "spin_split.py", built("e2e/libspin.so"))
    shown_as_spent(run.profile(), stays_of(run))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stacks_of_every_cpython_are_whole(record: Recorder, version: str) -> None:
    python = interpreter(version) or pytest.skip(f"no CPython {version} here")
    run = record(python, PROGRAMS / "spin_split.py", built("e2e/libspin.so"))
    profile = run.profile()
    shown_as_spent(profile, stays_of(run))
    tree = profile.tree("cpu-time")
    assert time_under(tree, "<module>", "main", "spin") / time_under(tree, "spin") >= 0.99
    assert time_under(tree, "[incomplete stack]") == 0
    assert profile.meta.degraded == ()


@pytest.mark.parametrize("method", ["spawn", "fork", "subprocess"])
def test_a_child_process_splits_likewise(record: Recorder, method: str) -> None:
    run = record(PYTHON, PROGRAMS / "spin_child.py", method, built("e2e/libspin.so"))
    profile = run.profile()
    shown_as_spent(profile, stays_of(run))
    assert len(profile.table("processes")["pid"].unique()) >= 2


def test_openmp_workers_hang_under_the_stack_that_launched_their_region(record: Recorder) -> None:
    library = built("e2e/libspin_openmp.so")
    run = record(PYTHON, PROGRAMS / "spin_openmp.py", library, env={"OMP_WAIT_POLICY": "passive"})
    profile = run.profile()
    shown_as_spent(profile, stays_of(run))
    threads = profile.sql("select distinct thread from cpu_samples")
    assert len(threads) == 2


def test_the_threads_of_a_pool_are_shown_as_threads(record: Recorder) -> None:
    library = built("e2e/libpool.so")
    call = f"from ctypes import *; run = CDLL({str(library)!r}).pool_run; run.restype = c_int64; print(run(2, 40, c_int64(40_000_000)))"
    run = record(PYTHON, "-c", call)
    profile = run.profile()
    tree = profile.tree("cpu-time")
    spun = time_under(tree, "spin")
    by_thread = [time_under(tree, f"pool-{number}", "spin") for number in range(2)]
    assert sum(by_thread) == spun
    # The time behind the last tick of a thread has no stack.
    lost = time_under(tree, "[ended before a tick]")
    assert spun <= int(run.stdout) * 1.06
    assert spun + lost >= int(run.stdout) * 0.94
    assert min(by_thread) > 0
    ends = profile.table("thread_ends")
    assert set(ends["name"].to_list()) >= {"pool-0", "pool-1"}
