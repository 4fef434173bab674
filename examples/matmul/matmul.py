"""One matrix product in three ways. `python matmul.py --device cuda` runs all; `python matmul.py --device cuda tiled` that one alone."""

from __future__ import annotations

import argparse
import time

from aiflame.demo.matmul import Device, check, matrix, open_device


def basic(device: Device) -> None:
    """Each number of the product fetches its row and its column from memory."""
    device.basic()


def blocked(device: Device) -> None:
    """A group of threads fetches blocks of both matrices once, into memory that it shares."""
    device.blocked()


def tiled(device: Device) -> None:
    """And each thread keeps a tile of the product in its registers."""
    device.tiled()


WAYS = {"basic": basic, "blocked": blocked, "tiled": tiled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--device", choices=("cuda", "ze", "opencl", "cpu"), default="opencl")
    parser.add_argument("--rounds", type=int, default=20, help="products of each way that are timed")
    options = parser.parse_args()
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"there is no way {', '.join(sorted(unknown))}: choose from {', '.join(WAYS)}")

    device = open_device(options.device)
    left, right = matrix(device.size), matrix(device.size)
    device.load(left, right)
    for name in options.ways or WAYS:
        print(f"{name:7} {speed(device, name, options.rounds):8.1f} GFLOP/s")
        check(left, right, device.results()[list(WAYS).index(name)])


def speed(device: Device, name: str, rounds: int) -> float:
    """As the program itself sees it, from outside."""
    WAYS[name](device)  # the first time, a driver may have to compile
    device.synchronize()
    began = time.perf_counter()
    for _ in range(rounds):
        WAYS[name](device)
    device.synchronize()
    return 2 * device.size**3 * rounds / (time.perf_counter() - began) / 1e9


if __name__ == "__main__":
    main()
