"""A torch program that knows nothing of aiflame: `attached.py train|decode|launch|either|threads [SECONDS]`, for that time or until its
input says `end`.

Without a time it prints `begun` after its first turns. Each line of its input gets a line of JSON: the number of turns, and in `launch`
the times of a launch since the last answer, each beside the time of a turn of plain Python at that moment: processors change their speed.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import threading
import time
from collections.abc import Callable

import torch
from torch import nn

CUDA = torch.device("cuda")
LAUNCHES, ADDITIONS = 2_000, 50_000
ANY_TRACER = ctypes.c_ulong(-1)

turns = 0
replays = True
"""Of `either`; its input says `graph` or `eager`."""
ns_of: list[tuple[float, float]] = []
"""of a launch, and of an addition"""
ends = threading.Event()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(nn.functional.gelu(self.first(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.joint, self.wide = Block(1024), nn.Linear(1024, 2048), Block(2048)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(self.joint(self.narrow(x)))  # type: ignore[no-any-return]


def train() -> Callable[[], None]:
    """Steps of training; the device is busy nearly all the time."""
    model = Model().to(CUDA, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(65536, 1024, device=CUDA, dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).float().square().mean().backward()
        optimizer.step()
        torch.cuda.current_stream().synchronize()

    return step


def decode() -> Callable[[], None]:
    """A graph of a model's forward pass, captured at the start, is replayed for each token."""
    return either()


def either() -> Callable[[], None]:
    """The same, or without the graph."""
    model = Model().to(CUDA, torch.bfloat16)
    token = torch.randn(64, 1024, device=CUDA, dtype=torch.bfloat16)
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(token)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(token)

    def replayed_here() -> None:
        graph.replay()

    def step() -> None:
        if replays:
            replayed_here()
            int(out[0].argmax())
        else:
            with torch.no_grad():
                int(model(token)[0].argmax())

    return step


def launch() -> Callable[[], None]:
    """The smallest kernels, one after the other: the device waits for launches. Keeps the time of a launch in each turn."""
    numbers = torch.zeros(32, device=CUDA)

    def window() -> None:
        torch.cuda.current_stream().synchronize()
        begin = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            numbers.add_(1.0)
        launched = time.perf_counter_ns()
        total = 0
        for number in range(ADDITIONS):
            total += number
        ns_of.append(((launched - begin) / LAUNCHES, (time.perf_counter_ns() - launched) / ADDITIONS))

    return window


def threads() -> Callable[[], None]:
    """Four threads that launch, copy, allocate, free, record events and wait, each as fast as it can."""
    counts = [0] * 4

    def work(number: int) -> None:
        chance, stream, host = random.Random(number), torch.cuda.Stream(), torch.randn(1 << 16).pin_memory()
        model, batch = Block(1024).to(CUDA, torch.bfloat16), torch.randn(64, 1024, device=CUDA, dtype=torch.bfloat16)
        with torch.cuda.stream(stream), torch.no_grad():
            while not ends.is_set():
                for _ in range(20):
                    model(batch)
                event = torch.cuda.Event()
                event.record()
                while not event.query():
                    pass
                host.to(CUDA, non_blocking=True)
                torch.empty(chance.randrange(1 << 20, 1 << 26), device=CUDA).zero_()
                if chance.random() < 0.05:
                    torch.cuda.empty_cache()
                if chance.random() < 0.3:
                    stream.synchronize()
                counts[number] += 1

    for number in range(4):
        threading.Thread(target=work, args=(number,)).start()

    def step() -> None:
        before = min(counts)
        while min(counts) == before and not ends.is_set():
            time.sleep(0.001)

    return step


def answer() -> None:
    global replays
    for line in sys.stdin:
        if line in ("graph\n", "eager\n"):
            replays = line == "graph\n"
        fresh = {"turns": turns, "ns_of": list(ns_of)}
        ns_of.clear()
        print(json.dumps(fresh), flush=True)
        if line == "end\n":
            ends.set()


def main() -> None:
    global turns
    turn = globals()[sys.argv[1]]()
    for _ in range(5):
        turn()
    torch.cuda.synchronize()
    if len(sys.argv) > 2:
        threading.Timer(float(sys.argv[2]), ends.set).start()
    else:
        allow = 0x59616D61  # PR_SET_PTRACER: where Yama restricts tracing, too
        ctypes.CDLL(None).prctl(allow, ANY_TRACER, 0, 0, 0)
        threading.Thread(target=answer, daemon=True).start()
        print("begun", flush=True)
    while not ends.is_set():
        turn()
        turns += 1
    torch.cuda.synchronize()
    print("ended")


if __name__ == "__main__":
    main()
