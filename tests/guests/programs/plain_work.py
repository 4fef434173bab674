"""Work of the standard library: threads, processes, signals, subprocesses, asyncio, files, and the interpreter's end."""

import asyncio
import atexit
import concurrent.futures
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


async def many() -> int:
    async def one(number: int) -> int:
        await asyncio.sleep(0.001 * (number % 5))
        process = await asyncio.create_subprocess_exec("true") if number % 20 == 0 else None
        return number + (await process.wait() if process else 0)

    return sum(await asyncio.gather(*(one(number) for number in range(100))))


def main() -> None:
    atexit.register(print, "atexit")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print("threads", sum(pool.map(fib, [18] * 12)))
    print("asyncio", asyncio.run(many()))
    heard = []
    signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    while len(heard) < 30:
        fib(10)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("alarms", set(heard))
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as processes:
            print(method, processes.map(fib, range(10, 20)))
    print("subprocess", subprocess.run(["sh", "-c", "echo out; echo err >&2; kill -TERM $$"], capture_output=True))
    try:
        sys.setrecursionlimit(3000)
        (lambda f: f(f))(lambda f: f(f))
    except RecursionError as error:
        print(type(error).__name__)
    child = os.fork()
    if not child:
        os._exit(fib(5))
    print("forked", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if hasattr(os, "waitstatus_to_exitcode") else 5)
    digest = hashlib.sha256()
    for number in range(20000):
        digest.update(str(number).encode())
    print("digest", digest.hexdigest())
    event = threading.Event()
    threading.Thread(target=lambda: (time.sleep(0.05), event.set()), daemon=True).start()
    print("event", event.wait(5))
    raised = 0
    for _ in range(3):
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            raised += 1
    print("interrupts", raised)
    sys.exit(9)


if __name__ == "__main__":
    main()
