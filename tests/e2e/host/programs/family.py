"""Computes in `first`, beside a child that a spawned interpreter runs; at SIGUSR1 it starts another one, in `late`. Ends at SIGTERM."""

import multiprocessing
import signal


def turn():
    total = 0
    for number in range(20_000):
        total += number * number


def first():
    turn()


def early():
    while True:
        turn()


def late():
    while True:
        turn()


def main():
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=early, daemon=True)]
    children[0].start()
    asked, ended = [], []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    print("begun", flush=True)
    while not ended:
        first()
        if len(children) <= len(asked):
            children.append(spawn.Process(target=late, daemon=True))
            children[-1].start()
    for child in children:
        child.terminate()
        child.join()


if __name__ == "__main__":
    main()
