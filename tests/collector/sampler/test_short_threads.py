"""Threads and processes that end before the kernel sends them a tick are in the samples for the CPU time that they used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from live import processes, recorded

import aiflame
from aiflame.profile.schema.enums import FrameKind

PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
extern char** environ;
static void burn(long ns) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long end = now.tv_sec * 1000000000L + now.tv_nsec + ns;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000000000L + now.tv_nsec < end);
}
static void* short_work(void* ns) { return burn((long)ns), NULL; }
int main(int count, char** words) {
    if (count == 2) return burn(atol(words[1])), 0;
    for (int i = 0, times = atoi(words[2]); i < times; i++) {
        pthread_t thread;
        pid_t child;
        if (words[3][0] == 't') {
            pthread_create(&thread, NULL, short_work, (void*)atol(words[1]));
            pthread_join(thread, NULL);
        } else {
            char* own[] = {words[0], words[1], NULL};
            posix_spawn(&child, words[0], NULL, NULL, own, environ);
            waitpid(child, NULL, 0);
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("programs") / "short"
    subprocess.run(["gcc", "-x", "c", "-O1", "-pthread", "-", "-o", target], input=PROGRAM, text=True, check=True)
    return target


@pytest.mark.parametrize("cpu_rate", [199, 999])
@pytest.mark.parametrize(("microseconds", "times"), [(300, 2000), (1500, 400), (8000, 80)])
def test_short_threads(program: Path, tmp_path: Path, cpu_rate: int, microseconds: int, times: int) -> None:
    recorded([program, str(1000 * microseconds), str(times), "threads"], tmp_path / "p", cpu_rate=cpu_rate)
    (process,) = processes(tmp_path / "p")
    ends = process.table("thread_ends").filter(process.table("thread_ends")["thread"] != 1)
    samples = process.table("cpu_samples").filter(process.table("cpu_samples")["thread"] != 1)
    assert len(ends) == times
    seconds = int(samples["weight"].sum()) / cpu_rate
    assert seconds == pytest.approx(int(ends["cpu_ns"].sum()) / 1e9, rel=0.3)


def test_a_thread_that_was_sampled_until_the_recordings_end_gets_no_last_tick(program: Path, tmp_path: Path) -> None:
    sampled = 0
    for number in range(10):
        recorded([program, str(60_000_000)], tmp_path / str(number) / "p")
        (process,) = processes(tmp_path / str(number) / "p")
        if process.table("cpu_samples").is_empty():
            continue  # on a busy host the kernel sent it no tick in 60 ms of CPU time
        sampled += 1
        marks = process.table("marks").filter(process.table("marks")["text"] == "[ended before a tick]")
        frames = {FrameKind.MARK << 60 | row for row in marks["id"]}
        made_up = process.table("stacks").filter(process.table("stacks")["frame"].is_in(frames))["id"]
        late = process.table("cpu_samples").filter(process.table("cpu_samples")["stack"].is_in(made_up.implode()))
        assert (late["weight"] > 1).all(), "the last tick alone"
    assert sampled


def test_short_processes(program: Path, tmp_path: Path) -> None:
    """Through the command: such samples are made when the profile is sealed."""
    command = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "-o", str(tmp_path / "p.aiflame"), "--"]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([*command, str(program), "1500000", "300", "processes"], check=True, env=environment)
    profile = aiflame.open(tmp_path / "p.aiflame")
    everybody = profile.table("processes")
    children = everybody.filter(everybody["pid"] != everybody["pid"][0])
    samples = profile.table("cpu_samples").join(children.select("process"), on="process", how="semi")
    ends = profile.table("process_ends").join(children.select("process"), on="process", how="semi")
    assert len(ends) == 300
    assert int(samples["weight"].sum()) / 199 == pytest.approx(int(ends["cpu_ns"].sum()) / 1e9, rel=0.3)
    assert "[ended before a tick]" in profile.table("marks")["text"].to_list()
