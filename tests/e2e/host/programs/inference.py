"""Programs that infer with torch, by name; each prints as JSON how often it called its model and how long that took by its own clock.

`decode`: requests, each a prompt of two sequences and then one token of each at a time. `score`: batches. `train`: optimizer steps, in each
of which a small module is called many times. `threads`: a loop in each of two threads.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import torch

REQUESTS, TOKENS, PROMPT, SEQUENCES = 4, 60, 300, 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 256)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(40))
        self.head = torch.nn.Linear(256, 1000)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(input_ids)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.head(hidden)


def decode(model: Model) -> dict[str, object]:
    prefills, decodes = [], []
    for _ in range(REQUESTS):
        given = torch.randint(0, 1000, (SEQUENCES, PROMPT))
        for step in range(TOKENS):
            keywords = {"input_ids": given}
            began = time.perf_counter_ns()
            # Half of the calls as transformers makes them: by the bound method.
            logits = model(given) if step % 2 else model.__call__(**keywords)
            given = logits[:, -1:].argmax(-1)
            (decodes if step else prefills).append(time.perf_counter_ns() - began)
    return {"prefills": prefills, "decodes": decodes}


def score(model: Model) -> dict[str, object]:
    took = []
    for _ in range(30):
        began = time.perf_counter_ns()
        model(torch.randint(0, 1000, (4, 100)))
        took.append(time.perf_counter_ns() - began)
    return {"calls": took}


def train(model: Model) -> dict[str, object]:
    small = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        with torch.no_grad():
            for _ in range(300):
                small(torch.ones(1, 8))
        model(torch.randint(0, 1000, (4, 100))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"steps": 5}


def threads(model: Model) -> dict[str, object]:
    both = [threading.Thread(target=score, args=(model,)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    return {"steps": 0}


def main() -> None:
    torch.set_num_threads(1)
    name = sys.argv[1]
    with torch.set_grad_enabled(name == "train"):
        report = {"decode": decode, "score": score, "train": train, "threads": threads}[name](Model())
    print(json.dumps(report))


if __name__ == "__main__":
    main()
