"""Programs that take away the means of recording are recorded all the same: its pages, every descriptor, the clock's instruction."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live import Outcome, processes, recorded

from built import built

Alone = Callable[..., Outcome]
WORK = """
import ctypes, os, resource, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = libc.munmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
def spin(seconds):
    end = time.thread_time() + seconds * ("AIFLAME_PROFILE" in os.environ)  # alone there is nothing to sample
    while time.thread_time() < end:
        pass
def pages():
    for line in open("/proc/self/maps"):
        if ".table" in line or line.rstrip().endswith("/control"):
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            yield begin, end - begin
"""
NO_DESCRIPTOR = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
ALL_TAKEN = """
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
try:
    while True: os.dup(0)
except OSError: pass
"""
DESCRIPTORS = {"none may be opened": NO_DESCRIPTOR, "all are taken": ALL_TAKEN}
at_once_or_later = pytest.mark.parametrize("before", [0, 200], ids=["at once", "later"])


@pytest.mark.parametrize("wall_rate", [0, 999])
@at_once_or_later
@pytest.mark.parametrize("way", DESCRIPTORS)
def test_recording_goes_on_without_descriptors(way: str, before: int, wall_rate: int, alone: Alone, tmp_path: Path) -> None:
    program = f"{WORK}spin({before / 1000})\n{DESCRIPTORS[way]}spin(0.5)\nprint('done')\nsys.exit(5)"
    goes_on([sys.executable, "-S", "-c", program], wall_rate, alone, tmp_path)


@pytest.mark.parametrize("wall_rate", [0, 999])
@at_once_or_later
@pytest.mark.parametrize("way", ["protected", "unmapped"])
def test_recording_goes_on_without_its_pages(way: str, before: int, wall_rate: int, alone: Alone, tmp_path: Path) -> None:
    goes_on([built("programs/takes_pages"), way, str(before)], wall_rate, alone, tmp_path)


def goes_on(command: list[str | Path], wall_rate: int, alone: Alone, tmp_path: Path) -> None:
    assert recorded(command, tmp_path / "p", cpu_rate=199, wall_rate=wall_rate) == alone(*command)
    assert alone(*command).status == 5, alone(*command).stderr
    (process,) = processes(tmp_path / "p")
    samples = process.table("cpu_samples")
    seconds = int(samples.filter(samples["clock"] == 0)["weight"].sum()) / 199
    assert seconds > 0.4
    assert process.table("notes").is_empty(), process.table("notes")["text"].to_list()


def test_where_the_program_puts_memory_of_its_own_nothing_is_written(tmp_path: Path) -> None:
    over = """
libc.mmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mmap.restype = ctypes.c_size_t
mine = sorted(pages(), key=lambda page: page[1])  # the control page first: between two of the others a tick may come
for begin, size in mine: assert libc.mmap(begin, size, 3, 0x32, -1, 0) == begin
spin(0.3)
print(sum(any(ctypes.string_at(begin, size)) for begin, size in mine))
sys.stdout.flush()
os._exit(5)
"""
    outcome = recorded([sys.executable, "-S", "-c", f"{WORK}spin(0.1)\n{over}"], tmp_path / "p", wall_rate=999)
    assert (outcome.status, outcome.stdout) == (5, "0\n"), outcome.stderr


@pytest.mark.parametrize("scene", ["works", "in a handler of SIGSEGV"])
@pytest.mark.parametrize("wall_rate", [0, 999])
def test_without_the_instruction_that_reads_the_clock(scene: str, wall_rate: int, alone: Alone, tmp_path: Path) -> None:
    command = (built("programs/no_clock_instruction"), scene)
    assert recorded(command, tmp_path / "p", wall_rate=wall_rate) == alone(*command)
    assert alone(*command).status == 3, alone(*command)
    (process,) = processes(tmp_path / "p")
    samples = process.table("cpu_samples")
    seconds = int(samples.filter(samples["clock"] == 0)["weight"].sum()) / 999
    assert seconds > 0.7 * int(process.table("process_ends")["cpu_ns"][0]) / 1e9
