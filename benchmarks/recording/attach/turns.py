"""A program to attach to: a quarter of its work in `light`, the rest in `heavy`. At SIGUSR1 it prints the longest time of a turn
since it was last asked, in ms.

    python turns.py python | pandas | transformers | training

`training`: torch, with two workers of a DataLoader."""

import signal
import sys
import time
from collections.abc import Callable

longest = 0.0


def answer(*_: object) -> None:
    global longest
    print(f"{longest * 1e3:.3f}", flush=True)
    longest = 0.0


def plain() -> Callable[[int], object]:
    def turn(size: int) -> int:
        total = 0
        for number in range(size * 1000):
            total += number * number
        return total

    return turn


def pandas() -> Callable[[int], object]:
    import numpy
    from pandas import DataFrame

    frame = DataFrame({"key": numpy.arange(20_000) % 97, "value": numpy.arange(20_000.0)})
    return lambda size: [frame.groupby("key")["value"].sum() for _ in range(size)]


def transformers() -> Callable[[int], object]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4
    )
    model = LlamaForCausalLM(config).eval()
    words = torch.arange(8)[None]

    def turn(size: int) -> None:
        with torch.no_grad():
            for _ in range(size):
                model(words)

    return turn


def training() -> Callable[[int], object]:
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def forever(loader: "DataLoader[object]"):  # type: ignore[no-untyped-def]
        while True:
            yield from loader

    batches = forever(DataLoader(torch.randn(4096, 64), batch_size=32, num_workers=2, persistent_workers=True))  # type: ignore[arg-type]

    def turn(size: int) -> None:
        for _ in range(size):
            optimizer.zero_grad()
            model(next(batches)).square().mean().backward()
            optimizer.step()

    return turn


KINDS = {"python": plain, "pandas": pandas, "transformers": transformers, "training": training}
turn = KINDS[sys.argv[1]]()


def light() -> None:
    turn(3)


def heavy() -> None:
    turn(9)


light()
signal.signal(signal.SIGUSR1, answer)
print("begun", flush=True)
before = time.perf_counter()
while True:
    for work in (light, heavy):
        work()
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
