"""Threads that wait, each for something that is in its name; then `ready`. Runs under every Python that a dump reads."""

import ctypes
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time

LONG_S = 1000
reading, writing = os.pipe()
left, right = socket.socketpair()
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
first, second, own, mutex = threading.Lock(), threading.Lock(), threading.RLock(), ctypes.create_string_buffer(64)
both = threading.Barrier(3)
held = threading.Barrier(3)
libc = ctypes.CDLL(None)


def saves():
    with second:
        both.wait()
        with first:
            pass


def loads():
    with first:
        both.wait()
        with second:
            pass


def queues():
    both.wait()
    with first:
        pass


def owner():
    own.acquire()
    libc.pthread_mutex_lock(mutex)
    held.wait()
    time.sleep(LONG_S)


def wants_own():
    held.wait()
    own.acquire()


def wants_mutex():
    held.wait()
    libc.pthread_mutex_lock(mutex)


def reads_pipe():
    os.read(reading, 1)


def receives():
    left.recv(1)


def accepts():
    listening.accept()


def polls():
    polled = select.epoll()
    polled.register(reading, select.EPOLLIN)
    polled.poll()


def gets():
    queue.Queue().get()


def joins():
    sleeper = threading.Thread(target=time.sleep, args=(LONG_S,), name="sleeps", daemon=True)
    sleeper.start()
    sleeper.join()


def child():
    subprocess.call([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=reading)


def spins():
    while True:
        pass


WAITING = (saves, loads, queues, owner, wants_own, wants_mutex, reads_pipe, receives, accepts, polls, gets, joins, child)

if __name__ == "__main__":
    for function in WAITING + ((spins,) if "spins" in sys.argv else ()):
        threading.Thread(target=function, name=function.__name__, daemon=True).start()
    print("ready", listening.getsockname()[1], flush=True)
    sys.stdin.read()
    os._exit(0)
