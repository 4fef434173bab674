"""Kernels, and then an end of some kind: `endings.py WAY`."""

from __future__ import annotations

import os
import signal
import sys
import threading

from driver import Context

MILLISECOND = 1_000_000
KERNELS = 100


def work(context: Context) -> None:
    for _ in range(KERNELS):
        context.spin(MILLISECOND // 10)
    context.synchronize()


def usual() -> None:
    work(Context())
    print("done")


def exit_at_once() -> None:
    work(Context())
    os._exit(7)


def exit_with_kernels_running() -> None:
    context = Context()
    work(context)
    context.spin(500 * MILLISECOND)
    os._exit(8)


def killed() -> None:
    work(Context())
    os.kill(os.getpid(), signal.SIGKILL)


def aborted() -> None:
    work(Context())
    os.abort()


def fork_after() -> None:
    """A child must not use CUDA; the test is that it may do all else."""
    context = Context()
    work(context)
    for way in ("return", "exit"):
        child = os.fork()
        if child == 0:
            total = sum(range(2_000_000))
            if way == "exit":
                sys.exit(0 if total else 1)
            os._exit(0 if total else 1)
        _, status = os.waitpid(child, 0)
        print(way, os.waitstatus_to_exitcode(status), flush=True)
    work(context)
    print("done")


def exec_after() -> None:
    work(Context())
    os.execv(sys.executable, [sys.executable, "-c", "print('another program')"])


def context_destroyed() -> None:
    for _ in range(3):
        context = Context(own=True)
        work(context)
        context.destroy()
    print("done")


def two_contexts() -> None:
    one, two = Context(own=True), Context(own=True)
    for context in (one, two):
        context.use()
        work(context)
    one.use()
    one.destroy()
    two.use()
    work(two)
    print("done")


def from_threads() -> None:
    context = Context()

    def in_a_thread() -> None:
        context.use()
        work(context)

    threads = [threading.Thread(target=in_a_thread, name=f"launcher-{number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("done")


WAYS = {
    way.__name__: way
    for way in (
        usual,
        exit_at_once,
        exit_with_kernels_running,
        killed,
        aborted,
        fork_after,
        exec_after,
        context_destroyed,
        two_contexts,
        from_threads,
    )
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
