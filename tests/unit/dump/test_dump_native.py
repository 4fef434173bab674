"""Programs without Python: which mutex, which thread, and their functions, also after `strip` and when linked statically."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs_to_dump import dumped, started

from aiflame.dump.deadlocks import deadlocks
from aiflame.dump.described import Described, Thread

SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone))
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
OWN void take(pthread_mutex_t *m) { pthread_mutex_lock(m); asm volatile(""); }
OWN void *a_then_b(void *_) { take(&a); pthread_barrier_wait(&both); take(&b); asm volatile(""); return _; }
OWN void *b_then_a(void *_) { take(&b); pthread_barrier_wait(&both); take(&a); asm volatile(""); return _; }
OWN void *writes(void *_) { pthread_rwlock_wrlock(&shared); pthread_barrier_wait(&both); for (;;) pause(); return _; }
OWN void *reads(void *_) { pthread_barrier_wait(&both); pthread_rwlock_rdlock(&shared); asm volatile(""); return _; }
OWN void *notified(void *_) {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  pthread_cond_wait(&never, &own);
  return _;
}
OWN void handler(int _) { for (;;) pause(); }
OWN void *handles(void *_) { raise(SIGUSR1); asm volatile(""); return _; }
OWN int polls_in(int file) { struct epoll_event event; return epoll_wait(file, &event, 1, -1); }
OWN void *polls(void *_) { int file = epoll_create1(0); polls_in(file); asm volatile(""); return _; }
static volatile int spinning;
OWN void *spins(void *_) { for (volatile long x = 0;; x++) spinning = 1; return _; }
int main() {
  void *(*all[])(void *) = {a_then_b, b_then_a, writes, reads, notified, handles, polls, spins};
  const char *names[] = {"a_then_b", "b_then_a", "writes", "reads", "notified", "handles", "polls", "spins"};
  pthread_t threads[8];
  signal(SIGUSR1, handler);
  pthread_barrier_init(&both, 0, 4);
  for (int i = 0; i < 8; i++) {
    pthread_create(&threads[i], 0, all[i], 0);
    pthread_setname_np(threads[i], names[i]);
  }
  while (!spinning) usleep(1000);
  puts("ready");
  fflush(stdout);
  pthread_join(threads[0], 0);
}
"""

WAITS = {
    "main": ("thread", "a_then_b"),
    "a_then_b": ("lock", "b_then_a"),
    "b_then_a": ("lock", "a_then_b"),
    "writes": ("signal", ""),
    "reads": ("lock", "writes"),
    "notified": ("condition", ""),
    "handles": ("signal", ""),
    "polls": ("events", ""),
    "spins": ("runs", ""),
}
"""By thread: the kind of its wait, and its holder."""

BUILDS = {
    "optimized": ("-O2",),
    "frame pointers": ("-O1", "-fno-omit-frame-pointer"),
    "stripped": ("-O2", "-s"),
    "static": ("-O2", "-static"),
    "fixed address": ("-O2", "-no-pie"),
}


@pytest.fixture(scope="module", params=BUILDS)
def dump(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Described, str]]:
    folder = tmp_path_factory.mktemp("native")
    source, program = folder / "waits.c", folder / "main"
    source.write_text(SOURCE)
    subprocess.run(["cc", *BUILDS[request.param], "-pthread", str(source), "-o", str(program)], check=True)
    with started([str(program)]) as process:
        yield dumped(process.pid, lambda dump: _waits(dump) == WAITS), request.param


def _waits(process: Described) -> dict[str, tuple[str, str]]:
    holders = {thread.tid: thread.name for thread in process.threads}
    return {thread.name: (thread.wait.kind, holders.get(thread.wait.holder or 0, "")) for thread in process.threads}


def _functions(thread: Thread) -> list[str]:
    return [frame.function for frame in thread.frames]


def test_each_thread_waits_for_what_the_source_says(dump: tuple[Described, str]) -> None:
    assert _waits(dump[0]) == WAITS


def test_each_stack_reaches_the_threads_own_function(dump: tuple[Described, str]) -> None:
    for thread in dump[0].threads:
        own = [frame for frame in thread.frames if Path(frame.file).name == "main"]
        if dump[1] == "stripped":
            assert own, thread
        else:
            assert thread.name in _functions(thread)


def test_frames_outside_of_a_signal_handler_are_found(dump: tuple[Described, str]) -> None:
    if dump[1] != "stripped":
        names = _functions(next(thread for thread in dump[0].threads if thread.name == "handles"))
        assert names.index("handler") < names.index("handles")


def test_a_call_that_a_stop_would_end_is_not_stopped(dump: tuple[Described, str]) -> None:
    assert next(thread for thread in dump[0].threads if thread.name == "polls").stopped_us == 0


def test_the_deadlock_is_named(dump: tuple[Described, str]) -> None:
    (sentence,) = deadlocks(dump[0])
    assert {"a_then_b", "b_then_a"} <= set(sentence.replace("(", " ").split())
