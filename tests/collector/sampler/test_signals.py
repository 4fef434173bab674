"""A program's signals work as if nobody else used SIGPROF, SIGSEGV and SIGBUS."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live import Outcome, plain, processes, recorded

from built import built

SCENES = (
    "round_trip",
    "ended_calls",
    "alarms_end_calls",
    "masks",
    "handler_masks",
    "reset_hand",
    "raises",
    "interval_timer",
    "pending",
    "ignored",
    "inherited_by_exec",
    "segv_jumps",
    "fault_details",
    "stack_overflow",
    "blocked_fault",
    "default_prof",
    "default_segv",
    "default_bus",
    "sent_segv",
)


@pytest.fixture(scope="module")
def scenes() -> Path:
    return built("programs/signal_scenes")


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Outcome, Outcome]]:
    """The same command without the collector and with it."""

    def run(*command: str | Path, wall_rate: int = 0) -> tuple[Outcome, Outcome]:
        return plain(command, tmp_path), recorded(command, tmp_path / "p", wall_rate=wall_rate)

    return run


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("wall_rate", [0, 999])
def test_a_program_sees_the_same_with_and_without_the_collector(
    scenes: Path, both: Callable[..., tuple[Outcome, Outcome]], scene: str, wall_rate: int
) -> None:
    alone, accompanied = both(scenes, scene, wall_rate=wall_rate)
    assert accompanied == alone


@pytest.mark.parametrize("scene", ["raises", "interval_timer", "masks", "segv_jumps"])
def test_sampling_goes_on_beside_the_programs_own_use(scenes: Path, tmp_path: Path, scene: str) -> None:
    recorded([scenes, scene], tmp_path / "p")
    (process,) = processes(tmp_path / "p")
    ticks, cpu_ns = int(process.table("cpu_samples")["weight"].sum()), int(process.table("process_ends")["cpu_ns"][0])
    assert ticks * 1e9 / 999 == pytest.approx(cpu_ns, rel=0.25, abs=2e7)


def test_a_fault_without_a_handler_leaves_the_same_core(scenes: Path, tmp_path: Path) -> None:
    """The core bit of the wait status, and the signal that would be in a core file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    command = (sys.executable, "-c", WAIT_STATUS, str(scenes), "default_segv")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        alone, accompanied = plain(command, tmp_path), recorded(command, tmp_path / "p")
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert accompanied.stdout == alone.stdout
    assert "signal 11" in alone.stdout


WAIT_STATUS = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
status = os.waitpid(pid, 0)[1]
print("signal", os.WTERMSIG(status), "core", os.WCOREDUMP(status))
"""

FAULTHANDLER = """
import ctypes, faulthandler
faulthandler.enable()
def inner(): ctypes.string_at(0)
def outer(): inner()
outer()
"""


def test_faulthandler_prints_the_same_traceback(both: Callable[..., tuple[Outcome, Outcome]]) -> None:
    alone, accompanied = both(sys.executable, "-c", FAULTHANDLER)
    assert "Fatal Python error: Segmentation fault" in alone.stderr
    assert _without_addresses(accompanied.stderr) == _without_addresses(alone.stderr)
    assert accompanied.status == alone.status


PYTHON_TIMER = """
import signal
seen = []
signal.signal(signal.SIGPROF, lambda number, frame: seen.append(number))
print(signal.getsignal(signal.SIGPROF) is not None, signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01))
while len(seen) < 20:
    sum(range(10000))
signal.setitimer(signal.ITIMER_PROF, 0)
print(set(seen), signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()), len(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print(signal.pthread_sigmask(signal.SIG_SETMASK, []) >= {signal.SIGPROF, signal.SIGSEGV})
"""


def test_pythons_own_profiling_timer_works(both: Callable[..., tuple[Outcome, Outcome]]) -> None:
    alone, accompanied = both(sys.executable, "-c", PYTHON_TIMER)
    assert accompanied == alone


SIGNAL_WAITER = """
import os, signal, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
for _ in range(2):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
came = []
def wait():
    while len(came) < 3 and (information := signal.sigtimedwait([signal.SIGPROF], 100)):
        came.append(information.si_pid == os.getpid())
waiter = threading.Thread(target=wait)
waiter.start()
for turn in range(3):
    os.kill(os.getpid(), signal.SIGPROF)
    while len(came) == turn and waiter.is_alive():
        time.sleep(0.01)
waiter.join()
print(came, flush=True)
os._exit(0)
"""


def test_a_signal_to_the_process_reaches_the_thread_that_waits_for_it(both: Callable[..., tuple[Outcome, Outcome]]) -> None:
    """Every other thread blocks it, and would take it only because ticks come that way."""
    alone, accompanied = both(sys.executable, "-c", SIGNAL_WAITER)
    assert "[True, True, True]" in alone.stdout
    assert accompanied == alone


def _without_addresses(text: str) -> list[str]:
    return [line.partition(" 0x")[0] for line in text.splitlines()]
