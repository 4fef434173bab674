"""Runtimes that watch a program closer than we do: they and their program run as without us."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from live import plain, processes, recorded

THREADS = """
#include <pthread.h>
#include <stdio.h>
static void* work(void* sum) {
    for (volatile long i = 0; i < 30000000; i = i + 1) ++*(long*)sum;
    return NULL;
}
int main(void) {
    long sums[2] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, work, &sums[i]);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    printf("%ld\\n", sums[0] + sums[1]);
    return 3;
}
"""


def test_thread_sanitizer(tmp_path: Path) -> None:
    """Its allocator is not ready where a thread begins, before its own start routine."""
    program = tmp_path / "threads"
    compiled = subprocess.run(
        ["gcc", "-x", "c", "-O1", "-fsanitize=thread", "-pthread", "-", "-o", program], input=THREADS, text=True, check=False
    )
    if compiled.returncode:
        pytest.skip("no gcc with ThreadSanitizer")
    command = ["sh", "-c", f"{program}; exit $?"]  # started by one that is recorded, it has its runtime before us
    outcome = recorded(command, tmp_path / "p", wall_rate=999)
    assert outcome == plain(command, tmp_path)
    assert outcome.status == 3, outcome.stderr
    assert any(process.command == [str(program)] for process in processes(tmp_path / "p"))


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_valgrind_reports_the_programs_errors_alone(wall_rate: int, tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind here")
    command = [
        "valgrind",
        "-q",
        "--error-exitcode=7",
        "sh",
        "-c",
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; /bin/echo child; exit 5",
    ]
    assert recorded(command, tmp_path / "p", wall_rate=wall_rate) == plain(command, tmp_path)


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_gprof_has_its_ticks_and_we_have_ours(wall_rate: int, tmp_path: Path) -> None:
    """Its handler of SIGPROF is set inside libc. On a busy machine the kernel sends ticks late; gprof's own,
    which are 10 ms apart, do not say how many were late, and may count the time of others: 1.6 times its own was seen.
    With the other's ticks, gprof would count ten times as many."""
    program = tmp_path / "work"
    work = "int main(void) { for (volatile long i = 0; i < 2000000000; i = i + 1); return 3; }"
    subprocess.run(["gcc", "-x", "c", "-O1", "-pg", "-", "-o", program], input=work, text=True, check=True)
    assert recorded([program], tmp_path / "p", wall_rate=wall_rate).status == 3
    (process,) = processes(tmp_path / "p")
    samples = process.table("cpu_samples")
    cpu_ns = int(process.table("process_ends")["cpu_ns"][0])
    assert 0.7 < int(samples.filter(samples["clock"] == 0)["weight"].sum()) / 999 / (cpu_ns / 1e9) < 1.2
    # gmon.out (gmon_out.h): header of 20 bytes, tag, low, high, size, rate (10 ms a tick), dimension, then the counts.
    data = (tmp_path / "gmon.out").read_bytes()
    size, rate = struct.unpack_from("<ii", data, 20 + 1 + 16)
    counts = struct.unpack_from(f"<{size}H", data, 20 + 1 + 16 + 8 + 16)
    assert 0.2 < sum(counts) / rate / (cpu_ns / 1e9) < 3
